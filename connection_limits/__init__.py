"""The decision which connections a broker admits, delays or refuses, as a library without I/O. Pure.

Problem: the broker decides about every accepted socket. The audit pipeline has to find out what other limits would have
decided about the same sockets. A second model of the limits would be wrong wherever it differs from the first.

Idea: one implementation, which both import (decision 65). `quotas.ConnectionQuotas` is the entry: it answers each
accepted socket with an `accept_decision`, and is notified of closed connections. The caller passes the time of every
call, in whole milliseconds, and carries the decision out: the broker with sockets, a replay with recorded events.

- `settings` has the limits as frozen values, `keys` their names. `limit_met` names the limit that caused a decision.
- `rate` has the two meters: Kafka's windowed rate (KIP-612) and a token bucket. `kept_meters` bounds their number.
- `listener_quota` has the limits of one listener. `address_quotas` has those of single addresses (`per_ip`) and of
  connection groups (`groups`), which `address_ranges` finds.
- `adaptive` moves a rate by an objective, and `cluster` divides one rate among brokers. `adaptive_rates` and
  `cluster_rates` connect them to the quotas.

Invariants:

- The same calls with the same times give the same decisions. Nothing here does I/O, reads a clock, draws random numbers
  or iterates over a set.
- A decision takes constant time for any number of addresses and groups. Memory is bounded: `kept_meters` evicts the
  address that was idle longest, and counts have an entry for each address with an open connection.
- A listener has at most one waiting socket. It counts in the rates from the moment at which it was accepted.
- A refused connection counts in no rate; a connection refused for a count is the exception, as in Kafka.
- Each admitted connection returns its slot exactly once, by `on_closed`.
- The package imports no program of this project, and only the standard library (contracts in pyproject.toml).

Tests: tests/unit/connection_limits, and tests/simulation/test_connection_quotas.py with Apache Kafka's scenarios.
"""
