"""Execute the commands of one connection's machine: receive, handle, send, and wait. Shell.

`_follow` is the whole of it: it executes a command, reports what came of it, and gets the next command, until the
connection has to wait. All other methods report one event to the machine. Nothing is decided here: neither which
request is handled when, nor when the client is read from.
"""

import errno
from math import inf

from broker_runtime.errors import ProtocolError
from broker_runtime.network.connection.commands import Command
from broker_runtime.network.connection.connection import HANDSHAKE_CUT_OFF, HANDSHAKE_REFUSED, Connection, Origin
from broker_runtime.network.connection.connection_states import ConnectionEvent, ConnectionState
from broker_runtime.network.connection.machine import ConnectionMachine
from broker_runtime.network.connection.output import send
from broker_runtime.network.connection.shared import Shared
from broker_runtime.network.sockets.interest import Interest
from broker_runtime.network.sockets.transport import FileUnreadableError, HandshakeError, Transport
from broker_runtime.wire.reply import Reply

_GONE = frozenset(
    {errno.ECONNRESET, errno.EPIPE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTUNREACH, errno.ECONNABORTED}
)
_CLOSED = ConnectionState.CLOSED
# A name of a module is found faster than the member of an enumeration.
_HANDLE, _SEND, _READ = Command.HANDLE, Command.SEND, Command.READ


class Channel:
    """One connection's input and output: it passes bytes between the socket and the protocol.

    Owns `transport`, and the `connection` over it.

    The poller and `TimeSlices` report to it.
    """

    __slots__ = ("_in_queue", "connection", "interest", "machine", "shared", "transport")

    def __init__(self, transport: Transport, origin: Origin, shared: Shared) -> None:
        self.transport = transport
        self.shared = shared
        self.machine = ConnectionMachine(origin.connection_id, origin.peer[0], shared.buffers)
        self.connection = Connection(origin, self.machine, self, shared)
        self.interest = Interest(transport, shared.poller)
        """Reading is switched off only when bytes arrive while the client is muted: mostly none do."""
        self._in_queue = False
        """Whether the connection waits for a time slice."""

    def __str__(self) -> str:
        return str(self.connection)

    def start(self) -> None:
        """Read what the client has already sent, then wait for more."""
        self.on_readable()
        if self.machine.state is not _CLOSED:
            self.interest.begin(self)

    def on_readable(self) -> None:
        """Receive bytes, unless the client is muted."""
        shared, machine, connection = self.shared, self.machine, self.connection
        now_s = shared.now()
        space = machine.space(now_s)
        if space is None:
            if self.interest.reads_to_write:
                self.on_writable()
            else:
                self.interest.pause_reading()
                self._follow(machine.go_on(now_s), now_s)
            return
        try:
            count = self.transport.receive_into(space)
        except BlockingIOError:
            self.interest.update()
            if now_s <= connection.new_until_s:
                # A part of a TLS handshake, for example.
                shared.newcomers_s += shared.now() - now_s
            return
        except OSError as error:
            self._stream_failed(error)
            return
        if count:
            connection.last_used_s = now_s
            if connection.new_until_s == inf:
                connection.new_until_s = now_s + shared.limits.established_after_s
            if now_s > connection.established_from_s:
                shared.established_used_s = now_s
        self._follow(machine.received(count, now_s), now_s)
        if now_s <= connection.new_until_s:
            shared.newcomers_s += shared.now() - now_s

    def on_writable(self) -> None:
        """Send the rest of the outgoing bytes, or receive if the transport had to write first."""
        if self.interest.write:
            now_s = self.connection.last_used_s = self.shared.now()
            self._follow(_SEND, now_s)
        else:
            self.on_readable()

    def on_hang_up(self) -> None:
        self.connection.end(ConnectionEvent.LOST)

    def was_heavy(self, length_s: float) -> None:
        """Implement `poller.Pollable` and `time_slices.QueuedConnection`: mark the connection as heavy."""
        self.machine.is_heavy = True
        self.connection.heavy_s = length_s

    @property
    def heavy_s(self) -> float:
        """Implement `time_slices.QueuedConnection`: return the time that the last long request took, in seconds."""
        return self.connection.heavy_s

    def go_on(self) -> None:
        """Implement `connection.OpenChannel`: send the outgoing bytes, or continue with the next work."""
        now_s = self.shared.now()
        self._follow(self.machine.go_on(now_s), now_s)

    def ask_for_slice(self) -> None:
        """Implement `connection.OpenChannel`: request a time slice for the work that had to wait."""
        if not self._in_queue:
            self._in_queue = True
            self.shared.slices.add(self)

    def run_slice(self) -> None:
        """Implement `time_slices.QueuedConnection`: continue in a time slice."""
        self._in_queue = False
        now_s = self.shared.now()
        command = self.machine.begin_slice(now_s)
        if command is _HANDLE:
            self.connection.last_used_s = now_s
        self._follow(command, now_s)

    def _wake(self) -> None:
        self.shared.timers.forget(self.connection.id)
        self.ask_for_slice()

    def _reply_came(self, reply: Reply | None) -> None:
        del reply
        self._collect(at_once=True)

    def _collect(self, *, at_once: bool = False) -> None:
        now_s = self.shared.now()
        if self.connection.throttle_s:
            self._throttle(now_s)
        self._follow(self.machine.collect(now_s, at_once=at_once), now_s)

    def _throttle(self, now_s: float) -> None:
        """Report the throttle time that a handler has set."""
        self.machine.throttle(now_s + self.connection.throttle_s)
        self.connection.throttle_s = 0.0

    def _follow(self, command: Command, now_s: float) -> None:
        """Execute `command` and those that follow it, until the connection has to wait."""
        machine, connection, interest = self.machine, self.connection, self.interest
        while True:
            if command is _HANDLE:
                # The handler changes when the client has authenticated.
                try:
                    reply = connection.handler(machine.request, connection)
                except ProtocolError as error:
                    command = machine.refused(error, now_s)
                except Exception as error:  # noqa: BLE001 - the host logs it; the other connections continue
                    self.shared.host.handler_failed(connection, error)
                    connection.close()
                    return
                else:
                    now_s = self.shared.now()
                    if connection.throttle_s:
                        self._throttle(now_s)
                    command = machine.answered(reply, now_s)
            elif command is _SEND:
                outgoing = machine.outgoing
                assert outgoing is not None
                try:
                    count = send(self.transport, outgoing)
                except OSError as error:
                    self._stream_failed(error)
                    return
                command = machine.sent(now_s, count)
                if interest.write is not machine.blocked:
                    interest.write = machine.blocked
                    interest.update()
            elif command is _READ:
                if not interest.read or self.transport.holds_bytes:
                    self._resume_reading()
                return
            else:
                self._wait(command, now_s)
                return

    def _resume_reading(self) -> None:
        self.interest.resume_reading()
        if self.transport.holds_bytes:
            self.ask_for_slice()

    def _wait(self, command: Command, now_s: float) -> None:
        """Execute a command after which the connection waits for an event, or ends."""
        machine, connection, shared = self.machine, self.connection, self.shared
        if command is Command.AWAIT:
            owed = machine.owed
            assert owed is not None
            owed.first.on_complete(self._reply_came)
            self._follow(machine.go_on(now_s), now_s)
        elif command is Command.QUEUE:
            self.ask_for_slice()
        elif command is Command.WAKE:
            shared.timers.set(connection.id, max(machine.throttled_until_s - now_s, 0.0), self._wake)
        elif command is Command.COLLECT:
            shared.loop.call_soon(self._collect)
        elif command is Command.PAUSE:
            self.interest.pause_reading()
        elif command is Command.RECEIVE:
            self.interest.resume_reading()
            self.on_readable()
        elif command is Command.REFUSE:
            connection.end(ConnectionEvent.REFUSE, machine.problem)
        elif command is Command.END_OF_STREAM:
            connection.end(ConnectionEvent.END_OF_STREAM, machine.problem)
        elif command is Command.CLOSE:
            connection.close()

    def _stream_failed(self, error: OSError) -> None:
        """End the connection: its transport has failed, or a file that it sends."""
        connection = self.connection
        if isinstance(error, FileUnreadableError):
            connection.refuse("reply-truncated", str(error))
        elif isinstance(error, HandshakeError):
            connection.refuse(HANDSHAKE_REFUSED if error.is_refusal else HANDSHAKE_CUT_OFF, f"TLS handshake: {error}")
        elif error.errno in _GONE:
            connection.end(ConnectionEvent.LOST)
        else:
            connection.refuse("socket-error", str(error))

    def stop(self) -> None:
        """Close the transport of the ended connection, and cancel everything that waits for it."""
        self.interest.end()
        self.transport.close()
        self.shared.timers.forget(self.connection.id)
        owed, self.machine.owed = self.machine.owed, None
        if owed is not None:
            owed.cancel()
