"""The operator's process: health, metrics, garbage collections, and the length of the event loop's iterations."""
