"""The subcommands of `python -m audit_pipeline`."""
