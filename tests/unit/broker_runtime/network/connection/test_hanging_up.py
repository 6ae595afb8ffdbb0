"""Thousands of connections are closed over short time slices, and not served from the first moment on."""

from collections.abc import Callable
from typing import Any, cast

from broker_runtime.network.connection.connection import Connection
from broker_runtime.network.connection.hanging_up import HangingUp
from broker_runtime.wire.handler import ServedConnection
from broker_runtime.wire.reply import PendingReply, Reply
from tests.support.fakes.manual_clock import ManualClock
from tests.support.fakes.memory_transport import MemoryTransport
from tests.unit.broker_runtime.network.connection.test_channel import Served, request

FRAME = memoryview(b"a request")
ANSWER = (b"an answer",)


class Client:
    """A client; closing it takes a tenth of a millisecond."""

    def __init__(self, scene: "Scene", number: int) -> None:
        self.scene, self.id = scene, number
        self.handler: Any = scene.serve
        self.is_open = True

    def close(self) -> None:
        self.scene.clock.advance(0.0001)
        self.is_open = False


class Scene:
    """Plays the used parts of `Shared` and of the loop."""

    def __init__(self, clients: int) -> None:
        self.clock = ManualClock()
        self.now = self.clock.monotonic
        self.soon: list[Callable[[], None]] = []
        self.clients = [Client(self, number) for number in range(clients)]
        self.served: list[int] = []
        self.hanging_up = HangingUp(cast("Any", self))

    @property
    def loop(self) -> "Scene":
        return self

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def serve(self, frame: memoryview, connection: ServedConnection) -> Reply:
        del frame
        self.served.append(cast(Client, connection).id)
        return ANSWER

    def ask(self, client: Client) -> Reply | PendingReply:
        return cast("Reply | PendingReply", client.handler(FRAME, client))

    def begin(self, *clients: Client) -> None:
        self.hanging_up.begin(cast("list[Connection]", clients))

    @property
    def open(self) -> int:
        return sum(client.is_open for client in self.clients)


def test_thousands_are_closed_in_short_time_slices() -> None:
    scene = Scene(5_000)
    scene.begin(*scene.clients)
    assert scene.open == 5_000, "the caller's time slice is not theirs"
    while scene.soon:
        scene.soon.pop()()
    assert scene.open == 0
    assert scene.hanging_up.lengths.longest_s(scene.now()) < 0.002


def test_clients_to_be_closed_are_not_served_and_others_are() -> None:
    scene = Scene(100)
    *leaving, stays = scene.clients
    scene.begin(*leaving)
    answer = scene.ask(leaving[50])
    assert isinstance(answer, PendingReply)
    heard: list[Reply | None] = []
    answer.on_complete(heard.append)
    assert heard == [None], "the request ends its connection"
    assert scene.ask(stays) == ANSWER
    assert scene.served == [stays.id]


def test_clients_that_connect_meanwhile_are_closed_too() -> None:
    scene = Scene(30)
    scene.begin(*scene.clients[:20])
    scene.soon.pop(0)()
    scene.begin(*scene.clients[20:])
    while scene.soon:
        scene.soon.pop()()
    assert scene.open == 0


def test_closing_no_clients_schedules_no_work() -> None:
    scene = Scene(1)
    scene.begin()
    assert not scene.soon
    assert scene.ask(scene.clients[0]) == ANSWER


def test_a_connection_that_is_to_be_closed_serves_no_request() -> None:
    transport = MemoryTransport()
    served = Served(transport)
    transport.arrive(request(b"a"))
    served.channel.on_readable()
    assert served.taken() == request(b"a")
    HangingUp(served.shared).begin([served.connection])
    transport.arrive(request(b"b"))
    served.channel.on_readable()
    served.loop.run()
    assert served.taken() == b""
    assert served.ended == 1
