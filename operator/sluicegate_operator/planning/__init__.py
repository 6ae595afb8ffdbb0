"""What should happen, decided from what is wanted and what was seen. Pure: no I/O, no clock."""
