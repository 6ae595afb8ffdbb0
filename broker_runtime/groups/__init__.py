"""The group coordinator: committed offsets, the classic protocol, KIP-848 and the push protocol.

Problem. Each group belongs to one partition of __consumer_offsets (`partition_of`). The leader of that partition
coordinates the group: it decides the requests of members and answers them only when the decision survives a fail-over.

Idea. A coordinator is a state machine over its log (`coordination.runtime`). A decision reads the state and returns
records and an answer. The runtime appends the records, applies them to the state, commits them, and then releases the
answer. A broker that takes over replays the same records.

- `service` starts a `term` for each partition that this broker leads, and ends it with the leadership.
- `shard` loads the state of one partition, and encodes and counts its records.
- `state` has all groups of a partition; `records` and `record_codec` are the format of its log, Apache Kafka's own.
- `classic`, `consumer` and `push` decide the requests of members, one package for each protocol.
- `offsets` commits, fetches, deletes and expires offsets; `lag` measures how far groups are behind.
- `pending_offsets` has the offsets of open transactions. A marker, which the coordinator of the transaction asks for,
  commits or drops them.

Invariants.

- Hard state changes only when a record is applied. Soft state (pending requests, the phase of a rebalance, timers) is
  changed by decisions and lost with the term, as in Apache Kafka.
- No answer depends on a record that is not durable: `answers.Outbox` keeps it until the commit.
- A decision that would take more than about a millisecond is made in steps (`broker_runtime.slicing.steps`) or in
  portions that are decisions of their own (`classic.portions`). Or a thread computes it from a copy
  (`GroupEnvironment.offload`).

The protocols, `offsets`, `state` and the codecs are pure: no I/O, no clock, no event loop. Unit tests are in
tests/unit/broker_runtime/groups, tests with real clients in tests/integration, and fail-overs in tests/simulation.
"""
