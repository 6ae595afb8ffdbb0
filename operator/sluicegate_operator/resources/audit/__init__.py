"""What an AuditPipeline runs: jobs, their files and settings. Pure."""
