"""The audit log of one broker process: events in numbered, checksummed blocks in spool files, see schemas/.

It only appends to the page cache. Another process (audit_pipeline) lands the spools; it knows the schema and nothing of
this package.
"""
