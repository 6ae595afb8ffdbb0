"""The network between simulated processes: connections with delays, cut links, resets. Bytes arrive in order.

It is below the code under test, which has its sockets over it (`sockets`); the simulation's own clients call
`loop.create_connection`. A cut delays bytes as TCP does until it heals. A kill closes a process's connections, a power
loss leaves them hanging. Like a cable, it knows nothing of frames.
"""

import asyncio
import random
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tests.simulation.cluster.machine.loop import Owner, VirtualLoop, current_owner

_STEP_S = 1e-6
_SYN_RETRY_S = 0.5
_HOLD_BYTES_MAX = 64 * 1024 * 1024


class Receiver(Protocol):
    """One end of a connection, as the process at this end sees it."""

    def data_received(self, data: bytes) -> None: ...

    def connection_lost(self, error: Exception | None) -> None: ...


R = TypeVar("R", bound=Receiver)


class Listener(Protocol):
    @property
    def owner(self) -> Owner: ...

    def accept(self, end: "End", peer: tuple[str, int]) -> Receiver | None:
        """Accept a connection; None hangs up."""
        ...


@dataclass(slots=True)
class NetworkFigures:
    chunks: int = 0
    bytes: int = 0
    checksum: int = 0


class Network:
    def __init__(self, loop: VirtualLoop, seed: int, delay_factor: float) -> None:
        self.loop = loop
        self.delay_factor = delay_factor
        self.random = random.Random(f"{seed}/network")
        self.figures = NetworkFigures()
        self.dead_hosts: set[str] = set()
        self._listeners: dict[tuple[str, int], Listener] = {}
        self._connections: dict[int, tuple[End, End]] = {}
        self._cut: dict[tuple[str, str], None] = {}
        self._refusing: set[tuple[str, int]] = set()
        self._slow: dict[str, float] = {}
        self._next_id = 0

    # Faults

    def cut(self, source: str, target: str) -> None:
        """Block everything from one host to the other; the opposite direction is not affected."""
        self._cut[source, target] = None

    def heal(self) -> None:
        self._cut.clear()
        self._refusing.clear()
        self._slow.clear()
        for end in self._ends():
            end.release()

    def slow(self, host: str, extra_s: float) -> None:
        self._slow[host] = extra_s

    def refuse(self, address: tuple[str, int], *, refuse: bool = True) -> None:
        """Refuse connections to an address, as if a device in between reported that nothing listens there."""
        (self._refusing.add if refuse else self._refusing.discard)(address)

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cut or source in self.dead_hosts or target in self.dead_hosts

    def reset(self, host: str, share: float) -> int:
        """Reset a share of a host's connections; data in flight may be lost, independently in each direction."""
        hit = [pair for pair in self._connections.values() if any(end.host == host for end in pair)]
        hit = [pair for pair in hit if self.random.random() < share]
        for one, other in hit:
            self.forget(one)
            for end in (one, other):
                end.drop(lose_what_is_under_way=self.random.random() < 0.5)
        return len(hit)

    def process_ended(self, owner: Owner) -> None:
        """Close what the process had open, as the kernel does; data that it had written still arrives."""
        self._listeners = {key: known for key, known in self._listeners.items() if known.owner is not owner}
        for end in [end for end in self._ends() if end.owner is owner]:
            self.forget(end)
            end.other.drop(lose_what_is_under_way=False)

    def power_lost(self, host: str) -> None:
        """Leave the host's connections hanging.

        Peers notice by their own time-outs, or by a reset once the host is back.
        """
        self.dead_hosts.add(host)
        self._listeners = {key: known for key, known in self._listeners.items() if key[0] != host}

    def power_back(self, host: str) -> None:
        self.dead_hosts.discard(host)
        for end in [end for end in self._ends() if end.host == host and not end.owner.alive]:
            self.forget(end)
            end.other.drop(lose_what_is_under_way=True)

    def _ends(self) -> Iterable["End"]:
        return [end for pair in self._connections.values() for end in pair]

    # Connections

    def listen(self, address: tuple[str, int], listener: Listener) -> None:
        if address in self._listeners:
            raise OSError(f"{address} is taken")
        self._listeners[address] = listener

    def close_listener(self, address: tuple[str, int], listener: Listener) -> None:
        if self._listeners.get(address) is listener:
            del self._listeners[address]

    def delay_s(self, source: str, target: str) -> float:
        usual = self.random.uniform(0.0002, 0.002) * self.delay_factor
        if self.random.random() < 0.005:
            usual += self.random.uniform(0.01, 0.2)
        return usual + self._slow.get(source, 0.0) + self._slow.get(target, 0.0)

    async def open(self, address: tuple[str, int], make: Callable[["End"], R]) -> R:
        """Connect; `make` receives the near end and returns its receiver. Raises ConnectionRefusedError."""
        owner = current_owner()
        assert owner is not None, "a connection needs a process"
        host = address[0]
        while True:
            await asyncio.sleep(self.delay_s(owner.host, host) + self.delay_s(host, owner.host))
            if not self.is_cut(owner.host, host) and not self.is_cut(host, owner.host):
                break
            await asyncio.sleep(_SYN_RETRY_S)
        listener = self._listeners.get(address)
        if listener is None or address in self._refusing:
            raise ConnectionRefusedError(f"nobody listens on {host}:{address[1]}")
        self._next_id += 1
        near = End(self, self._next_id, owner)
        far = End(self, self._next_id, listener.owner)
        near.other, far.other = far, near
        receiver = near.receiver = make(near)
        far.receiver = listener.accept(far, near.address)
        self._connections[self._next_id] = (near, far)
        if far.receiver is None:
            far.close()
        return receiver

    async def connect(
        self, make: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple["Transport", asyncio.BaseProtocol]:
        def connected(end: "End") -> Transport:
            protocol = make()
            transport = Transport(end, protocol)
            protocol.connection_made(transport)
            return transport

        transport = await self.open((host, port), connected)
        return transport, transport.protocol

    def forget(self, end: "End") -> None:
        self._connections.pop(end.id, None)

    def count(self, data: bytes) -> None:
        figures = self.figures
        figures.chunks += 1
        figures.bytes += len(data)
        figures.checksum = zlib.crc32(data, figures.checksum)


class End:
    """One end of a connection: its process writes there, and data of the other end arrives there."""

    def __init__(self, network: Network, number: int, owner: Owner) -> None:
        self.id = number
        self.owner = owner
        self.host = owner.host
        self.other: End
        self.receiver: Receiver | None = None
        self._network = network
        self.ended_s: float | None = None
        """Time at which its process closed it, or noticed its loss."""
        self._closed = False
        self._lost = False
        self._arrives_s = 0.0
        self._held: list[bytes | None] = []
        self._under_way: dict[int, asyncio.TimerHandle] = {}
        self._number = 0

    @property
    def address(self) -> tuple[str, int]:
        """Host and port, as the other end sees them."""
        return self.host, 20_000 + self.id % 40_000

    def write(self, data: bytes) -> None:
        if not self._closed and not self._lost:
            self._send(data)

    def close(self) -> None:
        """Close this end; the other end notices after all data that was written."""
        if not self._closed and not self._lost:
            self._closed = True
            self.ended_s = self._network.loop.time()
            self._send(None)

    def _send(self, data: bytes | None) -> None:
        if self._held or self._network.is_cut(self.host, self.other.host):
            self._held.append(data)
            if sum(len(held or b"") for held in self._held) > _HOLD_BYTES_MAX:
                raise AssertionError("somebody writes without end to a connection that does not move")
            return
        loop = self._network.loop
        delay_s = self._network.delay_s(self.host, self.other.host)
        self._arrives_s = max(loop.time() + delay_s, self._arrives_s + _STEP_S)
        self._number += 1
        self._under_way[self._number] = loop.call_at(
            self._arrives_s, self._arrive, self._number, data, context=self.other.owner.context
        )

    def _arrive(self, number: int, data: bytes | None) -> None:
        """Deliver data in the other end's process."""
        del self._under_way[number]
        if data is None:
            self._network.forget(self)
            self.other.lose(None)
        elif self.other.receiver is not None and not self.other._closed and not self.other._lost:
            self._network.count(data)
            self.other.receiver.data_received(data)

    def release(self) -> None:
        if not self._network.is_cut(self.host, self.other.host):
            held, self._held = self._held, []
            for data in held:
                self._send(data)

    def drop(self, *, lose_what_is_under_way: bool) -> None:
        """Drop the connection for this end, which notices that after a moment."""
        if lose_what_is_under_way:
            for timer in self.other._under_way.values():
                timer.cancel()
        loop = self._network.loop
        self.other._arrives_s = max(
            loop.time() + self._network.delay_s(self.other.host, self.host), self.other._arrives_s + _STEP_S
        )
        error = ConnectionResetError("reset by peer")
        loop.call_at(self.other._arrives_s, self.lose, error, context=self.owner.context)

    def lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = True
        self.ended_s = self._network.loop.time() if self.ended_s is None else self.ended_s
        if self.receiver is not None:
            self.receiver.connection_lost(error)


class Transport(asyncio.Transport):
    """The transport of the simulation's own clients' protocols."""

    def __init__(self, end: End, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._end = end
        self.protocol = protocol
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._end.write(bytes(data))

    @property
    def other_ended_s(self) -> float | None:
        return self._end.other.ended_s

    @property
    def address(self) -> tuple[str, int]:
        return self._end.address

    @property
    def other_host(self) -> str:
        return self._end.other.host

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._end.close()
            self._end._network.loop.call_soon(self._end.lose, None)

    def abort(self) -> None:
        self.close()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if isinstance(self.protocol, asyncio.Protocol):
            self.protocol.data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self.protocol.connection_lost(error)
