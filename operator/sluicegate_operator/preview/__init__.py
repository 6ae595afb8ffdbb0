"""What would change with other manifests: phrases for users. Pure: no I/O, no clock."""
