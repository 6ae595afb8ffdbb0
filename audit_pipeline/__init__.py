"""From the spools of brokers to Parquet files that any tool can read. Knows the schema, and no broker.

    spool --land--> segments --build--> facts and results --report--> page
                       |--publish--> audit topic --build--> ...
                       `--follow--> live usage

- `ingest.land` turns each complete spool into one segment: a Parquet file for each table with events. The content
  depends on the spool only, so that a killed lander repeats its work with the same files.
- `upkeep.compact` merges the small segments of an hour, `upkeep.retention` deletes the oldest. A plan, or a record of
  the deleted numbers, is written first: both steps can be interrupted.
- `upkeep.check` verifies that every number of every boot is covered exactly once, and reports gaps and corrupt files.
- `upkeep.publish` puts the events of segments into a Kafka topic, and after those of each segment a record that marks
  its end.
- `jobs` compute with Spark: `build` makes results by event-day, `follow` adds up the latest events.
- `sources` read segments or the topic, `results` are the pure computations, `report` renders the page.

Invariants: an event counts once in results, even if several files contain it. A file of results counts once the
manifest names it (`reading.published`). `build` sets aside what it cannot read, and reports it in the table
`quarantine`.

Tests: tests/unit/audit_pipeline, tests/integration/audit, and tests/contract/test_audit_pipeline_runs.py.
"""
