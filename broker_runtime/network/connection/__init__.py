"""One connection: its state machine, the requests in flight, and the bytes that it owes.

Idea: `machine` decides and has no socket; `channel` has the socket and decides nothing. The channel reports each event
and gets a `commands.Command` back, which it executes. What the machine needs for its decisions are objects without a
socket, too: `received/` (bytes that are no request yet, their memory and their time-out), `owed_replies` (replies from
the first pending one on), `connection_states` (the table of states and events).

`connection` is what handlers and owners see of one connection. `time_slices`, `shared.ConnectionTimers` and `output`
are for the channel: the queue for the next time slice, timers, and writing replies and files. `handshakes` limits TLS
handshakes, and `hanging_up` closes thousands of connections in slices. `connection_notices` are what observers get.
`outgoing/` has the machine and the shell of connections to other brokers.

Tests: tests/unit/broker_runtime/network/connection: test_machine.py drives the machine without a socket, and
test_channel.py drives both over transports in memory.
"""
