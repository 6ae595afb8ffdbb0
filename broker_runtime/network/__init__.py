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
- Memory follows what has arrived, never what a client announces (`connection.frames`,
  `connection.request_memory`).
- Each listener has at most one client that the quotas delay. A client that hung up counts in no rate (decision 44).
- Every admitted connection returns its slot to the quotas exactly once, when it closes (`connections`).
- The inter-broker listener is protected: limits for clients do not apply to it if there is another listener.

Tests: tests/unit/broker_runtime/network and tests/unit/connection_limits (each module), tests/contract
(test_transport.py, test_connections_over_transports.py), tests/simulation (test_connection_quotas.py has Apache Kafka's
scenarios in virtual time), and tests/integration (test_storm.py, test_unfinished_requests.py).
"""
