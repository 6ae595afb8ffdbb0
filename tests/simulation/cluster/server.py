"""Stands in for SocketServer in a simulated process: the same methods, connections from the simulated network.

Frames go to the real dispatcher; a connection is muted while its reply is awaited, as the real one.
"""

from collections.abc import Callable, Collection, Iterable

from broker_runtime.errors import ProtocolError
from broker_runtime.network.settings import QuotaSettings
from broker_runtime.wire.reply import FileRegion, PendingReply, Reply
from tests.simulation.cluster.loop import Owner
from tests.simulation.cluster.network import End, Network

Handler = Callable[[memoryview, "ServerConnection"], Reply | PendingReply]
_SIZE_BYTES = 4


class SimulatedServer:
    def __init__(self, network: Network, owner: Owner, mistake: Callable[[str], None]) -> None:
        """`mistake` is told of what only a mistake of ours can be: a handler that failed."""
        self.handler: Handler | None = None
        self.mistake = mistake
        self.connections: dict[ServerConnection, None] = {}
        self._network = network
        self._owner = owner
        self._doors: dict[str, _Door] = {}

    @property
    def listeners(self) -> tuple[str, ...]:
        return tuple(self._doors)

    @property
    def connection_count(self) -> int:
        return len(self.connections)

    def add_listener(self, name: str, host: str, port: int) -> tuple[str, int]:
        door = self._doors[name] = _Door(self, self._owner, name, (host, port))
        self._network.listen(door.address, door)
        return door.address

    def address(self, listener: str) -> tuple[str, int]:
        return self._doors[listener].address

    def start(self, listener: str | None = None) -> None:
        for name, door in self._doors.items():
            if listener is None or name == listener:
                door.started = True
                for connection in list(self.connections):
                    connection.pump()

    def pause(self, listeners: Collection[str], why: str) -> None:
        for name in listeners:
            self._doors[name].paused = True
        for connection in [known for known in self.connections if known.listener in listeners]:
            connection.close()

    def resume(self, listeners: Collection[str]) -> None:
        for name in listeners:
            self._doors[name].paused = False

    def remove_listener(self, name: str) -> None:
        door = self._doors.pop(name)
        self._network.close_listener(door.address, door)
        for connection in [known for known in self.connections if known.listener == name]:
            connection.close()

    def update_limits(self, quotas: QuotaSettings) -> None:
        """Quotas have simulations of their own."""

    def update_ip_rate(self, ip: str | None, rate: int | None) -> None:
        """As above."""

    def collect(self) -> Iterable[object]:
        return ()

    @property
    def turn_lengths(self) -> Iterable[object]:
        return ()

    async def shutdown(self, drain_s: float) -> None:
        self.close()

    def close(self) -> None:
        for name in list(self._doors):
            self.remove_listener(name)


class _Door:
    def __init__(self, server: SimulatedServer, owner: Owner, name: str, address: tuple[str, int]) -> None:
        self.owner = owner
        self.name = name
        self.address = address
        self.started = False
        self.paused = False
        self._server = server

    def accept(self, end: End, peer: tuple[str, int]) -> "ServerConnection | None":
        if self.paused:
            return None
        connection = ServerConnection(self._server, self, end, peer)
        self._server.connections[connection] = None
        return connection


class ServerConnection:
    """A `Peer` of the dispatcher."""

    def __init__(self, server: SimulatedServer, door: _Door, end: End, peer: tuple[str, int]) -> None:
        self.listener = door.name
        self.peer = peer
        self._server = server
        self._door = door
        self._end = end
        self._buffer = bytearray()
        self._pending: PendingReply | None = None
        self._closed = False

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self.pump()

    def connection_lost(self, error: Exception | None) -> None:
        self._forget()

    def _forget(self) -> None:
        self._closed = True
        self._server.connections.pop(self, None)
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.cancel()

    def close(self) -> None:
        if not self._closed:
            self._end.close()
            self._forget()

    def refuse(self, kind: str, text: str) -> None:
        if kind == "handler-failed":
            self._server.mistake(text)
        self.close()

    def pump(self) -> None:
        while self._door.started and not self._closed and self._pending is None:
            if len(self._buffer) < _SIZE_BYTES:
                return
            end = _SIZE_BYTES + int.from_bytes(self._buffer[:_SIZE_BYTES], "big")
            if len(self._buffer) < end:
                return
            frame = self._buffer[_SIZE_BYTES:end]
            del self._buffer[:end]
            self._answer(memoryview(frame))
            # Whoever keeps a view of the frame beyond the call finds nonsense, as with the real, reused buffer.
            frame[:] = bytes(len(frame))

    def _answer(self, frame: memoryview) -> None:
        assert self._server.handler is not None
        try:
            reply = self._server.handler(frame, self)
        except ProtocolError as error:
            self.refuse(error.kind, str(error))
            return
        except Exception as error:  # noqa: BLE001 - the real connection ends here too; a simulation says so
            self.refuse("handler-failed", repr(error))
            return
        if isinstance(reply, PendingReply):
            self._pending = reply
            reply.on_complete(self._completed)
        else:
            self._send(reply)

    def _completed(self, reply: Reply | None) -> None:
        self._pending = None
        if self._closed:
            return
        if reply is None:
            self.close()
            return
        self._send(reply)
        self.pump()

    def _send(self, reply: Reply) -> None:
        whole = b"".join(chunk.read() if isinstance(chunk, FileRegion) else chunk for chunk in reply)
        if whole:
            self._end.write(whole)
