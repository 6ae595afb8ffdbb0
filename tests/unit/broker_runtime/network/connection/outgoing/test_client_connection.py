"""The shell of an outgoing connection, over transports in memory: each request gets an answer or an error."""

import asyncio
from contextlib import suppress

import pytest

from broker_runtime.config import ServerAddress
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.network.connection.outgoing.client_connection import ClientConnection, ClientConnector
from broker_runtime.network.settings import ClientLimits
from broker_runtime.network.sockets.transport import Transport
from broker_runtime.wire.header import prefix
from broker_runtime.wire.versions import FETCH
from tests.support.fakes.memory_transport import EncryptingTransport, MemoryTransport
from tests.support.fakes.noted_poller import NotedPoller
from tests.support.oracles.circles import no_circles

pytestmark = pytest.mark.virtual_time

LIMITS = ClientLimits(response_bytes_max=1_000_000, in_flight_max=2, connect_timeout_s=3.0)
ADDRESS = ServerAddress("leader.example", 9092)


class Dialled:
    """One connection, whose other end the test plays."""

    def __init__(self, transport: MemoryTransport) -> None:
        self.transport = transport
        self.poller = NotedPoller()
        self.connection = ClientConnection(transport, "broker 1", LIMITS, self.poller)

    async def ask(self, body: bytes) -> "asyncio.Task[memoryview]":
        asking = asyncio.ensure_future(self.connection.exchange(FETCH, 12, body))
        await asyncio.sleep(0)
        return asking

    def answer(self, number: int, body: bytes) -> None:
        self.transport.arrive(prefix(number, len(body), True) + body)
        self.connection.on_readable()


@pytest.fixture(params=[MemoryTransport, EncryptingTransport], ids=["memory", "encrypting"])
def transport(request: pytest.FixtureRequest) -> MemoryTransport:
    made: MemoryTransport = request.param()
    return made


async def refused(asking: "asyncio.Task[memoryview]") -> str:
    with pytest.raises(KafkaError) as error:
        await asking
    assert error.value.code == ErrorCode.BROKER_NOT_AVAILABLE
    return str(error.value)


async def test_each_request_gets_its_own_answer(transport: MemoryTransport) -> None:
    end = Dialled(transport)
    one, other = await end.ask(b"one"), await end.ask(b"other")
    end.answer(1, b"first")
    end.answer(2, b"x" * 100_000)
    for _ in range(10):
        await asyncio.sleep(0)
        end.connection.on_readable()
    assert bytes(await one) == b"first"
    assert bytes(await other) == b"x" * 100_000


async def test_a_cancelled_request_does_not_affect_the_answers_of_others(transport: MemoryTransport) -> None:
    end = Dialled(transport)
    one, other = await end.ask(b"one"), await end.ask(b"other")
    one.cancel()
    with suppress(asyncio.CancelledError):
        await one
    end.answer(1, b"first")
    end.answer(2, b"second")
    assert bytes(await other) == b"second"


async def test_no_more_requests_wait_than_the_limit_says(transport: MemoryTransport) -> None:
    end = Dialled(transport)
    for _ in range(2):
        await end.ask(b"")
    assert "too many requests" in await refused(await end.ask(b""))
    end.connection.close()


async def test_unsent_bytes_follow_when_the_socket_is_writable(transport: MemoryTransport) -> None:
    end = Dialled(transport)
    transport.room = 10
    asking = await end.ask(b"ask" * 10)
    assert len(transport.sent) == 10
    assert end.poller.watched == (True, True)
    transport.room = 1_000
    end.connection.on_writable()
    assert transport.sent.endswith(b"ask" * 10)
    assert end.poller.watched == (True, False)
    end.answer(1, b"")
    await asking


async def test_a_transport_that_must_read_before_it_writes_is_read_for_it() -> None:
    transport = EncryptingTransport()
    transport.must_read_first = True
    end = Dialled(transport)
    asking = await end.ask(b"ask")
    assert not transport.sent
    assert end.poller.watched == (True, False)
    transport.must_read_first = False
    end.connection.on_readable()
    assert transport.sent.endswith(b"ask")
    end.answer(1, b"")
    await asking


@pytest.mark.parametrize("how", ["end", "nonsense", "close", "hang up"])
async def test_the_end_of_the_connection_fails_all_pending_requests(transport: MemoryTransport, how: str) -> None:
    end = Dialled(transport)
    waiting = [await end.ask(b"") for _ in range(2)]
    if how == "end":
        transport.end()
        end.connection.on_readable()
    elif how == "nonsense":
        end.answer(7, b"")
    elif how == "close":
        end.connection.close()
    else:
        end.connection.on_hang_up()
    for asking in waiting:
        assert (await refused(asking)).find("broker 1: ") >= 0
    assert end.connection.lost
    assert transport.fileno() < 0
    assert end.poller.watched is None
    await refused(await end.ask(b""))


class OneDialler:
    """A dialler whose server answers after `delay_s`, or refuses."""

    def __init__(self, delay_s: float, error: OSError | None = None) -> None:
        self.poller = NotedPoller()
        self._delay_s = delay_s
        self._error = error

    async def dial(self, address: ServerAddress) -> Transport:
        assert address == ADDRESS
        await asyncio.sleep(self._delay_s)
        if self._error is not None:
            raise self._error
        return MemoryTransport()


async def test_a_server_is_connected_to_within_the_limit_or_named() -> None:
    connection = await ClientConnector(OneDialler(2.0), LIMITS).connect(ADDRESS, "broker 1")
    connection.close()
    for dialler, why in (
        (OneDialler(4.0), "no connection within 3 s"),
        (OneDialler(0.0, ConnectionRefusedError("nobody listens")), "nobody listens"),
    ):
        with pytest.raises(KafkaError) as error:
            await ClientConnector(dialler, LIMITS).connect(ADDRESS, "broker 1")
        assert error.value.code == ErrorCode.BROKER_NOT_AVAILABLE
        assert str(error.value).endswith(f"broker 1 at leader.example:9092: {why}")


async def hear_of_the_end(transport: MemoryTransport) -> None:
    end = Dialled(transport)
    asking = await end.ask(b"one")
    end.connection.close()
    assert "the connection was closed" in str((await asyncio.gather(asking, return_exceptions=True))[0])
    del asking
    # The loop refers to the last task until the next iteration.
    await asyncio.sleep(0)


async def test_a_request_without_an_answer_keeps_nothing(transport: MemoryTransport) -> None:
    with no_circles():
        await hear_of_the_end(transport)
