"""The process itself: its memory, garbage collector, files and event loop. Shell."""
