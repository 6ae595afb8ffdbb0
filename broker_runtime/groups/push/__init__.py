"""Groups of the push protocol: the coordinator calls its consumers, has them stop and start, and pings them. Pure.

Problem. The protocol is a draft from before Kafka 0.9, for thin consumers in any language. A consumer opens one
connection, registers, and waits for calls. The coordinator decides which partitions it reads and from which offsets.
docs/decisions/0035 has the decisions that the draft leaves open, docs/reference/push-protocol.md the protocol for
clients.

Idea. A rebalance has four steps. Plan: compute the owner of each partition. Stop: stop all fetchers that may run.
Commit the offsets that the answers bring. Start: send each consumer its partitions and offsets. A consumer that does
not answer is removed. If a rebalance fails because a consumer has left, the next one follows immediately.

- `registration`, `registering` and `subscription` check and admit a consumer; `leaving` has the records of its removal.
- `calls` are the calls as data, `asking` sends them, `answers` decides the answers, `pings` finds dead consumers.
- `rebalance` has the steps, `ownership` the plan, `starting` the content of StartFetcher, `states` the states.
- `offsets` commits what consumers send; `log_ends` and `checking` compare offsets with the ends of logs.
- `group` and `member` are the state; `upkeep` continues after a load and reacts to changed topics.

Invariants.

- Registrations are hard state, all else is soft. After a fail-over each consumer registers again, and has stopped
  before.
- No consumer starts before all others of the group have stopped and their offsets are committed.
- A committed offset never decreases, except if it lies beyond the end of its log.
- While the coordinator is late with a connection (`Calls.is_behind`), it does not count the consumer's answers as late.

Unit tests are in tests/unit/broker_runtime/groups/push, fail-overs in tests/simulation/test_push_groups.py.
"""
