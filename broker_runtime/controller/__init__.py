"""The controller: the single writer of the cluster's metadata (KIP-500, KIP-631).

Problem: all brokers need the same topics, leaders and configuration, in the same order, soon after each change. One
process has to decide, another one has to take over when it fails, and a deposed one must not be able to write.

Idea: metadata is a log of records (decision 1). The active controller computes records from the current image, appends
them to its local log, and makes them durable in the journal. Then it advances the high watermark and answers. Brokers
fetch that log like any partition and apply the records to their own image.

- `service` owns the terms: election, load, work, return to standby. `metadata_shard` and `journal_log` connect the
  metadata to the runtime of all coordinators (`broker_runtime.coordination`).
- The other modules decide: each function gets an image and a request, and returns records or raises KafkaError. Long
  decisions are `Steps`, so that heartbeats are answered meanwhile.
- `journal` makes records durable. `file` is the log itself, for one controller. `kubernetes` writes one object for each
  commit, and elects with a Lease among several controllers (decision 6).

Invariants:

- An offset is written once. With `kubernetes` the name of an object is its offset, and a create is a compare-and-swap.
  So a controller that slept is deposed at its next commit, whatever its clock says.
- A term begins with a record of its epoch. Nothing else is decided before that is durable.
- Only the journal is durable. Sessions and timers are soft state, and each term creates them again.
- Every change of a partition goes through `elections.changed_partition`. It keeps the in-sync set and the eligible
  replicas true: their members have every record below the high watermark (decision 10).

Tests: tests/unit/broker_runtime/controller (test_invariants.py checks any history of brokers and partitions,
test_standby.py has several controllers), tests/contract/test_journal.py for every journal, tests/simulation, and
tests/integration/cluster/test_controller_takeover.py with processes that are killed or suspended.
"""
