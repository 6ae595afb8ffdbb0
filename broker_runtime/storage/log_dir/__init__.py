"""All logs of one log directory: loading, checkpoints, creation, deletion, upkeep."""
