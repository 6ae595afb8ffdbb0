"""Opening segments after a crash: what is scanned, what is cut, and snapshots of producers."""
