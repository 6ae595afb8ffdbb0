"""The rows, rates, columns and texts of the console, without terminal and network."""
