"""The audit log of one broker process: events in numbered, checksummed blocks in spool files, see schemas/.

It only appends to the page cache. Another process (audit_pipeline) lands the spools; it knows the schema and nothing of
this package.

Problem: record every request at little cost on the event loop, and prove afterwards that nothing is missing, even after
a kill -9 or with a full disk.

Idea: each event of a boot takes the next number, and a reader checks that the numbers have no holes.

- `log` selects what is recorded, `clients` decides how clients appear in it, `rollup` adds requests up.
- `change_log` records what requests change, and with what outcome (`changes`).
- An event adds fixed-size rows to the current block (`block`) in memory. `writer` closes a block when it is full or
  0.1 s old, and appends it to the spool.
- Before a number is used, `spool` writes a higher one into the head of the file as reserved. After a kill -9, the
  numbers between the last block and the reserved one are those that may be missing.
- While the spool cannot be written, blocks wait in a queue. If that is full, events are dropped (or requests refused),
  and a gap event accounts for their numbers.
- A spool is complete after a minute or 16 MiB by default. Its boot's lock shows whether the broker still runs.

Invariants: a number without an event is covered by a gap or by the reserved number. A block can be read without any
other. A new file begins only when all numbers before it are written.

Tests: tests/unit/broker_runtime/observers/audit_log, tests/contract/test_audit_schema.py (the format), and
tests/integration/audit/test_kills.py.
"""
