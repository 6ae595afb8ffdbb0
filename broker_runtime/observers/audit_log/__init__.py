"""The audit log of one broker process: events in numbered, checksummed blocks in spool files, see schemas/.

It appends to the page cache and does nothing else: another process lands the spools (audit_pipeline), which knows the
schema and nothing of this package.
"""
