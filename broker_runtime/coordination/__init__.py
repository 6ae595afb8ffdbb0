"""The runtime of coordinators: state machines whose durable state is a log, and that answer only what is durable.

Problem. A coordinator (of groups, or of the metadata log) decides many small requests, and each decision depends on the
ones before it. No client may receive an answer that the next coordinator would not find in the log.

Idea. `runtime.CoordinatorRuntime` is the single writer of one log. It repeats four steps:

1. take the queued requests, then the due timers (up to a limit);
2. decide them in order: a decision returns records and an answer, the records are appended to the log and applied to
   the state in memory;
3. commit the log once for all of them (group commit);
4. send the answers.

A failover is a load: the next writer replays the log and gets the same state. `decider` makes one decision, and
`record_writer` appends its records and applies them. Neither they nor the runtime know the log or the contents of
records; `seam` has their interfaces. A `DurableLog` is the controller's journal or a replicated partition
(`replicated_log`). A `Shard` encodes records and loads the state.

Invariants:

- The state is what the log's records say. A decision changes durable state only through its records.
- The runtime has applied everything that it has appended; what it cannot append, it does not apply.
- No queued request is answered, not even with a refusal, before all decisions of its group are durable.
- Nothing is appended while a commit runs.
- After a failed commit the state is discarded. The group's requests get `Refusal.LOST`: their records may be durable.
- Timers and other soft state end with the term.
- A decision that waits for another one (`postponed`) has changed nothing. It is made, or refused, in a later commit.
- The log has records in the order of their decisions. A producer's transaction (`seam.TransactionalBatch`) and the
  marker that ends it (`seam.TransactionEnd`) have batches of their own, written after the batch gathered so far.

`term.HostedTerm` is a shard with its runtime for one leader epoch of a replicated partition, and the time limits of its
requests. `hosted_terms.HostedTerms` has the terms of a broker, one for each partition that the broker leads.

All coordinators of a process share one time slice of the event loop (`deciding_slices`), so that sockets are read in
time. Long decisions are made in steps (`broker_runtime.slicing.steps`).

Tests: tests/unit/broker_runtime/coordination, and tests/contract/test_coordination.py for the two logs.
"""
