"""The Transport, the Poller and the Dialler of simulated processes, over the simulated network.

They replace the TCP sockets and epoll of a real process: everything above them is the real code, at both ends. Written
data is taken at once. The process that watches arrived data is notified in a later iteration of its event loop.
"""

from collections.abc import Callable, Sequence

from broker_runtime.config import ServerAddress
from broker_runtime.network.sockets.poller import Pollable
from broker_runtime.network.sockets.transport import SENDFILE_BYTES, FileUnreadableError
from broker_runtime.security.principal import Principal
from broker_runtime.slicing.slice_lengths import SliceLengths
from broker_runtime.wire.reply import FileRegion
from tests.simulation.cluster.machine.loop import Owner
from tests.simulation.cluster.machine.network import End, Network


class SimulatedSocket:
    """A Transport. Owns one end of a connection; `poller` is its process's."""

    holds_bytes = False

    def __init__(self, end: End, poller: "SimulatedPoller") -> None:
        self.reset = False
        self._end = end
        self._poller = poller
        self._number = poller.add(self)
        self._arrived = bytearray()
        self._ended = False

    @property
    def readable(self) -> bool:
        return bool(self._arrived) or self._ended

    # Events of the network

    def data_received(self, data: bytes) -> None:
        if self._number >= 0:
            self._arrived += data
            self._poller.look(self._number)

    def connection_lost(self, error: Exception | None) -> None:
        if self._number >= 0:
            self._ended = True
            self.reset = error is not None
            self._poller.look(self._number)

    # Calls of the connection

    @property
    def holds_unread(self) -> bool:
        return bool(self._arrived)

    def receive_into(self, space: memoryview, /) -> int:
        self._check_open()
        if self.reset:
            raise ConnectionResetError("reset by peer")
        if not self.readable:
            raise BlockingIOError
        count = min(len(space), len(self._arrived))
        space[:count] = self._arrived[:count]
        del self._arrived[:count]
        return count

    def write(self, buffers: Sequence[bytes | bytearray | memoryview], /) -> int:
        self._check_open()
        data = b"".join(buffers)
        self._end.write(data)
        return len(data)

    def send_region(self, region: FileRegion, /) -> int:
        self._check_open()
        data = region.file.pread(min(region.length, SENDFILE_BYTES), region.offset)
        if not data:
            raise FileUnreadableError("a log file is shorter than its index says")
        self._end.write(data)
        region.offset += len(data)
        region.length -= len(data)
        return len(data)

    def on_handshake(self, ended: Callable[[Principal | None], None], begun: Callable[[], None], /) -> bool:
        del ended, begun
        return False

    def waits_for(self, *, read: bool, write: bool) -> tuple[bool, bool]:
        return read, write

    def fileno(self) -> int:
        return self._number

    def close(self) -> None:
        if self._number >= 0:
            self._poller.remove(self._number)
            self._number = -1
            self._end.close()

    def _check_open(self) -> None:
        if self._number < 0:
            raise OSError("it is closed")


class SimulatedPoller:
    """A Poller that is level-triggered, like epoll; each target is notified in a separate iteration of the loop."""

    def __init__(self, network: Network, owner: Owner) -> None:
        self.lengths = SliceLengths("sockets")
        self._loop = network.loop
        self._owner = owner
        self._sockets: dict[int, SimulatedSocket] = {}
        self._watched: dict[int, tuple[Pollable, bool, bool]] = {}
        """By descriptor: the target, and whether it waits for reading and for writing."""
        self._to_tell: set[int] = set()
        self._next_number = 0

    def add(self, socket: SimulatedSocket) -> int:
        self._next_number += 1
        self._sockets[self._next_number] = socket
        return self._next_number

    def remove(self, number: int) -> None:
        del self._sockets[number]

    def is_behind(self) -> bool:
        return False

    def watch(self, fd: int, target: Pollable) -> None:
        self._watched[fd] = (target, True, False)
        self.look(fd)

    def change(self, fd: int, *, read: bool, write: bool) -> None:
        self._watched[fd] = (self._watched[fd][0], read, write)
        self.look(fd)

    def forget(self, fd: int) -> None:
        self._watched.pop(fd, None)

    def close(self) -> None:
        self._watched.clear()

    def look(self, fd: int) -> None:
        """Check a descriptor that has changed, and notify its target soon if there is an event."""
        if fd not in self._watched or fd in self._to_tell:
            return
        _, read, write = self._watched[fd]
        socket = self._sockets[fd]
        if write or socket.reset or (read and socket.readable):
            self._to_tell.add(fd)
            self._loop.call_soon(self._tell, fd, context=self._owner.context)

    def _tell(self, fd: int) -> None:
        self._to_tell.discard(fd)
        if fd not in self._watched:
            return
        target, read, write = self._watched[fd]
        socket = self._sockets[fd]
        if read and socket.readable:
            target.on_readable()
        elif socket.reset:
            target.on_hang_up()
        elif write:
            target.on_writable()
        self.look(fd)


class SimulatedDialler:
    """A Dialler. Owns the poller of the connections that one process dials."""

    def __init__(self, network: Network, owner: Owner) -> None:
        self.poller = SimulatedPoller(network, owner)
        self._network = network

    async def dial(self, address: ServerAddress) -> SimulatedSocket:
        return await self._network.open((address.host, address.port), lambda end: SimulatedSocket(end, self.poller))
