"""Replaces SocketServer in a simulated process: the same methods, listeners of the simulated network.

Its connections are the real ones, over simulated sockets.
"""

from collections.abc import Callable, Collection, Iterable

from broker_runtime.clock import Clock
from broker_runtime.config import SecurityProtocol
from broker_runtime.config.declaring.endpoints import SASL
from broker_runtime.network.connection.channel import Channel
from broker_runtime.network.connection.connection import Connection, Origin
from broker_runtime.network.connection.received.incoming import SCRATCH_BYTES
from broker_runtime.network.connection.shared import OwnedConnection, Shared
from broker_runtime.network.quotas.limit_changes import LimitChanges
from broker_runtime.network.settings import NetworkLimits
from broker_runtime.security.authentication_counts import AuthenticationCounts
from broker_runtime.wire.answer_memory import AnswerMemory
from broker_runtime.wire.handler import Authenticate, AuthenticatingConnection, FrameHandler, ServedConnection
from broker_runtime.wire.reply import PendingReply, Reply
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import QuotaSettings
from tests.simulation.cluster.machine.loop import Owner
from tests.simulation.cluster.machine.network import End, Network
from tests.simulation.cluster.machine.sockets import SimulatedPoller, SimulatedSocket


class _FreePorts:
    """Ports of the simulated network: nothing has to be reserved."""

    def reserve(self, listener: str, host: str, port: int) -> None:
        """Do nothing: the port stays free."""

    def release(self) -> None:
        """Do nothing."""


class SimulatedServer:
    """The listeners of one simulated process, and the connections that came through them."""

    def __init__(
        self,
        handler: FrameHandler,
        limits: NetworkLimits,
        clock: Clock,
        place: tuple[Network, Owner],
        mistake: Callable[[str], None],
        answers: AnswerMemory,
    ) -> None:
        """`mistake` is called if a handler fails, which only a mistake of our code can cause."""
        self._network, self._owner = place
        self._mistake = mistake
        self._clock = clock
        self._poller = SimulatedPoller(*place)
        self._shared = Shared(self._network.loop, self._poller, clock, limits, _forgetting(handler), answers)
        self._shared.host = self
        self.connection_notices = self._shared.notices
        self.limit_changes = LimitChanges(ConnectionQuotas(limits.quotas, 0), clock.monotonic)
        self._connections: dict[int, Connection] = {}
        self._doors: dict[str, _Door] = {}
        self.reserved = _FreePorts()
        self.authentications = AuthenticationCounts()
        self.authenticate: Authenticate = _nobody
        self._authenticating: set[str] = set()
        """Listeners whose clients have to authenticate."""
        self._next_id = 0

    @property
    def listeners(self) -> tuple[str, ...]:
        return tuple(self._doors)

    def add_listener(self, name: str, host: str, port: int, protocol: SecurityProtocol) -> tuple[str, int]:
        if protocol in SASL:
            self._authenticating.add(name)
        door = self._doors[name] = _Door(self, self._owner, name, (host, port))
        self._network.listen(door.address, door)
        return door.address

    def address(self, listener: str) -> tuple[str, int]:
        return self._doors[listener].address

    def start(self, listener: str | None = None) -> None:
        for name, door in self._doors.items():
            if listener is None or name == listener:
                door.start()

    def pause(self, listeners: Collection[str], why: str) -> None:
        for name in listeners:
            self._doors[name].pause()
        self._close_those_of(listeners)

    def resume(self, listeners: Collection[str]) -> None:
        for name in listeners:
            self._doors[name].paused = False

    def remove_listener(self, name: str) -> None:
        door = self._doors.pop(name)
        self._network.close_listener(door.address, door)
        door.pause()
        self._close_those_of([name])

    def _close_those_of(self, listeners: Collection[str]) -> None:
        for connection in [known for known in self._connections.values() if known.listener in listeners]:
            connection.close()

    def update_limits(self, quotas: QuotaSettings) -> None:
        """Do nothing: quotas have their own simulations."""

    def update_ip_rate(self, ip: str | None, rate: int | None) -> None:
        """Do nothing, as above."""

    def collect(self) -> Iterable[object]:
        return ()

    @property
    def slice_lengths(self) -> Iterable[object]:
        return ()

    async def shutdown(self, drain_s: float) -> None:
        self.close()

    def close(self) -> None:
        for name in list(self._doors):
            self.remove_listener(name)

    # Notifications of doors and connections

    def socket(self, end: End) -> SimulatedSocket:
        return SimulatedSocket(end, self._poller)

    def connect(self, accepted: SimulatedSocket, listener: str, peer: tuple[str, int]) -> None:
        self._next_id += 1
        origin = Origin(self._next_id, listener, peer, self._clock.monotonic())
        channel = Channel(accepted, origin, self._shared)
        self._connections[self._next_id] = channel.connection
        if listener in self._authenticating:
            self.authenticate(channel.connection)
        channel.start()

    def memory_freed(self, waiting: Iterable[int]) -> None:
        for number in waiting:
            self._connections[number].ask_for_slice()

    def connection_closed(self, connection: OwnedConnection) -> None:
        del self._connections[connection.id]

    def connection_refused(self, connection: ServedConnection, kind: str, text: str) -> None:
        """Do nothing: the connection continues, as in a broker."""

    request_refused = connection_refused

    def handler_failed(self, connection: ServedConnection, error: Exception) -> None:
        self._mistake(repr(error))


def _nobody(connection: AuthenticatingConnection) -> None:
    raise AssertionError(f"the composition has not said how {connection} authenticates")


def _forgetting(handler: FrameHandler) -> FrameHandler:
    """Overwrite a frame after its call, so that code that keeps a view of it fails at once.

    Otherwise it would only fail when the buffer is reused.
    """

    def handle(frame: memoryview, connection: ServedConnection) -> Reply | PendingReply:
        try:
            return handler(frame, connection)
        finally:
            # A larger frame has its own buffer, and may be kept.
            if len(frame) <= SCRATCH_BYTES:
                frame[:] = bytes(len(frame))

    return handle


class _Door:
    """One listener. Connections before its start wait, as in a kernel's backlog."""

    def __init__(self, server: SimulatedServer, owner: Owner, name: str, address: tuple[str, int]) -> None:
        self.owner = owner
        self.address = address
        self.paused = False
        self._name = name
        self._server = server
        self._started = False
        self._backlog: list[tuple[SimulatedSocket, tuple[str, int]]] = []

    def accept(self, end: End, peer: tuple[str, int]) -> SimulatedSocket | None:
        if self.paused:
            return None
        accepted = self._server.socket(end)
        if self._started:
            self._server.connect(accepted, self._name, peer)
        else:
            self._backlog.append((accepted, peer))
        return accepted

    def start(self) -> None:
        self._started = True
        waiting, self._backlog = self._backlog, []
        for accepted, peer in waiting:
            self._server.connect(accepted, self._name, peer)

    def pause(self) -> None:
        self.paused = True
        waiting, self._backlog = self._backlog, []
        for accepted, _ in waiting:
            accepted.close()
