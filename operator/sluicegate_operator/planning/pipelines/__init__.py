"""AuditPipelines: their runs, schedules and status."""
