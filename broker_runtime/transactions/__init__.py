"""The transaction coordinator (KIP-98, KIP-360, KIP-890): which producer may write, and how its transactions end.

Problem. A producer with a transactional id writes records to many partitions and commits offsets of a group. All of it
becomes visible together, or none of it, although the producer, the coordinator and each leader may fail in between. A
second producer with the same transactional id must end the transaction of the first one and stop its writes.

Idea. Each transactional id belongs to one partition of `__transaction_state`. The leader of that partition is the
coordinator of the id: a state machine over its log, on the runtime of `coordination`, as groups are.

1. InitProducerId gives the id a producer id and an epoch. Each later call raises the epoch.
2. Partitions are added to the transaction before a batch is appended to them.
3. EndTxn writes a Prepare record. From then on the transaction ends in this way, whoever is the coordinator.
4. Markers are sent to the leaders of all its partitions. When all are written, a Complete record follows.

Modules.

- `ids` has the states and the table of their legal transitions, the durable state of each id, and the records and the
  format of the log, Apache Kafka's own.
- `decisions` decides requests; `timeouts` aborts transactions that take too long and removes ids without use.
- `shard` loads a partition and sends the markers; `term` is one leader epoch; `service` has the terms of this broker.
- `seam` has the interfaces to the dispatch of markers and to the verification of partitions.

Invariants.

- A client gets no answer, and no leader a marker, before the record that they follow from is durable.
- A transaction whose Prepare record is durable ends in that way. No request and no timeout changes it.
- The epoch of an id never falls while its producer id stays the same. No client holds an epoch above 32766.
- A Complete record follows only when each partition has its marker, has a newer epoch of the producer, or no longer
  exists.
- The last epoch of a producer is soft state: a load forgets it, as in Apache Kafka.

`ids`, `decisions` and `timeouts` are pure: no I/O, no clock, no event loop.

Tests: tests/unit/broker_runtime/transactions, and tests/integration/transactions with real clients.
"""
