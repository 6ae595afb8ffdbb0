"""The change of a broker's link from controller to controller, also while it connects."""

import asyncio
from collections.abc import Sequence

import pytest

from broker_runtime.cluster.links.controller_ring import ControllerRing
from broker_runtime.cluster.links.socket_link import SocketLink
from broker_runtime.config import ServerAddress
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.network.connection.outgoing.client_connection import ClientConnector
from broker_runtime.network.settings import ClientLimits
from broker_runtime.network.sockets.poller import Pollable
from broker_runtime.wire.header import prefix
from broker_runtime.wire.versions import BROKER_HEARTBEAT
from tests.support.fakes.memory_transport import MemoryTransport
from tests.support.fakes.noted_poller import NotedPoller

pytestmark = pytest.mark.virtual_time

ONE, TWO, THREE = RING = [ServerAddress(f"controller-{n}.example", 9093) for n in range(3)]


def test_the_one_that_is_passed_by_is_asked_last() -> None:
    ring = ControllerRing(RING)
    ring.pass_by(ONE)
    assert ring.first == TWO
    ring.pass_by(ONE)
    assert ring.first == TWO, "it was not asked"
    ring.pass_by(TWO)
    ring.pass_by(THREE)
    assert ring.first == ONE


def test_the_ring_turns_to_whom_it_knows() -> None:
    ring = ControllerRing(RING)
    assert ring.turn_to(THREE)
    assert ring.first == THREE
    assert not ring.turn_to(THREE)
    assert not ring.turn_to(ServerAddress("stranger.example", 9093))
    ring.pass_by(THREE)
    assert ring.first == ONE


class Answering(MemoryTransport):
    """A controller that answers each request at once."""

    def write(self, buffers: Sequence[bytes | bytearray | memoryview], /) -> int:
        taken = super().write(buffers)
        number = int.from_bytes(self.sent[8:12], "big")
        self.sent.clear()
        self.arrive(prefix(number, 2, True) + b"ok")
        asyncio.get_running_loop().call_soon(self.ready)
        return taken

    def ready(self) -> None:
        raise NotImplementedError


class TellingPoller(NotedPoller):
    def watch(self, fd: int, target: Pollable) -> None:
        super().watch(fd, target)
        Controllers.last.ready = target.on_readable  # type: ignore[method-assign]


class Controllers:
    """A dialler to controllers that connect after a second, refuse, or never answer."""

    last: Answering

    def __init__(self) -> None:
        self.poller = TellingPoller()
        self.dialled: list[ServerAddress] = []
        self.open: list[tuple[ServerAddress, Answering]] = []
        self.refusing: set[ServerAddress] = set()
        self.silent: set[ServerAddress] = set()

    async def dial(self, address: ServerAddress) -> Answering:
        self.dialled.append(address)
        await asyncio.sleep(100.0 if address in self.silent else 1.0)
        if address in self.refusing:
            raise ConnectionRefusedError("nobody listens")
        made = Controllers.last = Answering()
        self.open.append((address, made))
        return made

    @property
    def connected(self) -> list[ServerAddress]:
        return [address for address, transport in self.open if transport.fileno() >= 0]


@pytest.fixture
def controllers() -> Controllers:
    return Controllers()


@pytest.fixture
def link(controllers: Controllers) -> SocketLink:
    return SocketLink(RING, ClientConnector(controllers, ClientLimits(1_000, 10, 5.0)))


async def ask(link: SocketLink) -> bytes:
    return b"".join(await link.exchange(BROKER_HEARTBEAT, 1, b""))


async def test_the_first_that_can_be_reached_is_asked_from_then_on(controllers: Controllers, link: SocketLink) -> None:
    controllers.refusing = {ONE}
    controllers.silent = {TWO}
    for _ in range(2):
        assert await ask(link) == b"ok"
    assert controllers.dialled == [ONE, TWO, THREE]
    assert link.server == THREE
    link.move_on()
    controllers.refusing.clear()
    await ask(link)
    assert link.server == ONE


async def test_the_link_fails_after_all_controllers_refused(controllers: Controllers, link: SocketLink) -> None:
    controllers.refusing = set(RING)
    with pytest.raises(KafkaError, match=r"controller-0\.example:9093: nobody listens") as error:
        await ask(link)
    assert error.value.code == ErrorCode.BROKER_NOT_AVAILABLE
    assert controllers.dialled == RING


@pytest.mark.parametrize("refuses", [False, True])
async def test_the_link_asks_a_controller_selected_while_another_one_is_connecting(
    controllers: Controllers, link: SocketLink, refuses: bool
) -> None:
    """Previously the ring was turned past it, or the other one's connection was used for it."""
    if refuses:
        controllers.refusing = {ONE}
    asking = asyncio.ensure_future(ask(link))
    await asyncio.sleep(0.5)
    link.turn_to(TWO)
    assert await asking == b"ok"
    assert link.server == TWO
    assert controllers.dialled == [ONE, TWO]
    assert controllers.connected == [TWO]


async def test_a_controller_that_has_long_not_answered_is_asked_no_more(
    controllers: Controllers, link: SocketLink
) -> None:
    await ask(link)
    Controllers.last.ready = lambda: None  # type: ignore[method-assign]
    for patience_s, remains in ((1.0, [ONE]), (4.0, [])):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(patience_s):
                await ask(link)
        assert controllers.connected == remains
