"""Sockets of a broker or controller: listeners, connections, connection quotas, and outgoing connections.

Problem: one thread with one event loop accepts, reads and answers for every client. A connection storm, a client that
sends slowly, or one request that takes long must not stop the others. And a limit must delay or refuse exactly the
connections that Apache Kafka's quotas would (KIP-308, KIP-402, KIP-612).

Idea:

- Sockets are raw and non-blocking, without asyncio's transports (decision 2). One epoll watches them
  (`sockets.poller`).
- Decisions are pure modules: they do no I/O, read no clock, and get times as arguments. Shells move the bytes.
  The package `connection_limits` decides about each accepted socket, and `accepting.admission` carries that out.
  `connection.machine` decides what a connection does next, by the table in `connection.connection_states`: it returns
  commands (`connection.commands`). `connection.channel` owns the socket and executes them.
- Everything that takes long is bounded (decision 16). An acceptor takes a few clients and pauses while established
  clients are busy (decision 4). Requests beyond one time slice wait in `connection.time_slices`. A file or many replies
  leave in pieces (`connection.output`).

Invariants:

- Replies leave in the order of their requests. A reply that comes later mutes the connection, except for produce
  requests behind one that waits for replicas (`connection.owed_replies`).
- Memory follows what has arrived, never what a client announces (`connection.received.frames`,
  `connection.received.request_memory`).
- Each listener has at most one client that the quotas delay. A client that hung up counts in no rate (decision 44).
- Every admitted connection returns its slot to the quotas exactly once, when it closes (`connections`).
- The inter-broker listener is protected: limits for clients do not apply to it if there is another listener.

Where a change begins:

- What a connection does next: `connection.connection_states`, then `connection.machine`.
- A new reason to end a connection: `Connection.refuse` with a new kind, and a line in
  docs/reference/closed-connections.md. An end that is not the client's fault is a constant of
  `connection.connection_notices`.
- A new limit on connections: `connection_limits`. `quotas.limits_held` shows it, and `quotas.metrics` counts it.
- A rate that adapts: `adaptive_limits`, imported on demand (decisions 45 and 68).

Tests: tests/unit/broker_runtime/network and tests/unit/connection_limits (each module), tests/contract
(test_transport.py, test_connections_over_transports.py), tests/simulation (test_connection_quotas.py has Apache Kafka's
scenarios in virtual time), and tests/integration (test_storm.py, test_unfinished_requests.py).
"""
