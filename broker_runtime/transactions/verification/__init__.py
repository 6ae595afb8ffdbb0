"""Verification: a leader asks the coordinator about a transaction before it appends the first records (KIP-890).

Problem. A batch of a transaction may arrive after its abort marker, or without AddPartitionsToTxn before it. Appended,
it would open a transaction that nobody ends, and the last stable offset would stand still.

Idea. The leader of a partition asks the coordinator of the transactional id, by AddPartitionsToTxn. For a client of
transaction version 2, the coordinator adds the partition. If this broker is the coordinator, no request is needed.
Otherwise `questions` gathers the questions for each coordinator's broker while a request to it is under way.

Modules. `questions` decides what is asked together, `requests` turns questions into requests and answers into codes,
and `verifier` sends them. `questions` and `requests` are pure.

Invariants.

- Each question is answered exactly once, with a code for each of its partitions, whatever happens to the request.
- At most one request is under way to each broker. No more questions wait for a broker than the limit.
- A question is refused with INVALID_PRODUCER_EPOCH if one of a later epoch of its producer waits, or comes while it
  waits.

Two questions of one producer and epoch that wait are asked together. Apache Kafka refuses the earlier one instead, with
an error after which the client tries again.

Tests: tests/unit/broker_runtime/transactions/verification.
"""
