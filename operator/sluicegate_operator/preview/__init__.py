"""What would change if manifests were others: phrases for people. Pure: no I/O, no clock."""
