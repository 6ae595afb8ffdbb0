"""What a key of the configuration is: its type, its allowed values, its default."""
