"""The open listeners: those in force, those reserved before, and those that cannot be opened."""

import asyncio
from collections.abc import Collection, Mapping

import pytest

from broker_runtime.config import SecurityProtocol, broker_settings
from broker_runtime.config.in_force.effective import effective_config
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.network.sockets.listening import ListenerBindError
from broker_runtime.node.listeners_in_force import ListenersInForce

SETTINGS = broker_settings({"node.id": "1", "listeners": "PLAINTEXT://h:9092"})
MAP = "A:PLAINTEXT,B:PLAINTEXT"


class Server:
    """Notes the calls of a SocketServer; ports in `taken` cannot be bound, and port 0 is 40000."""

    def __init__(self) -> None:
        self.reserved = self
        self.taken: set[int] = set()
        self.open: dict[str, tuple[str, int]] = {}
        self.held: dict[str, int] = {}
        self.paused: set[str] = set()
        self.started: set[str] = set()
        self.closed: list[str] = []

    def reserve(self, listener: str, host: str, port: int) -> None:
        self._check(listener, port)
        self.held[listener] = port

    def release(self) -> None:
        self.held.clear()

    def _check(self, name: str, port: int) -> None:
        if port in self.taken or (port and port in [bound for _, bound in self.open.values()]):
            raise ListenerBindError(f"listener {name}: cannot listen on port {port}")

    def add_listener(self, name: str, host: str, port: int, _: SecurityProtocol) -> None:
        self._check(name, port)
        self.open[name] = host, port or 40_000

    def remove_listener(self, name: str) -> None:
        del self.open[name]
        self.closed.append(name)

    def start(self, listener: str | None = None) -> None:
        self.started |= set(self.open) if listener is None else {listener}

    def pause(self, listeners: Collection[str], why: str) -> None:
        self.paused |= set(listeners)

    def resume(self, listeners: Collection[str]) -> None:
        self.paused -= set(listeners)

    def address(self, listener: str) -> tuple[str, int]:
        return self.open[listener]


class Scene:
    def __init__(self) -> None:
        self.server = Server()
        self.listeners = ListenersInForce(SETTINGS, self.server)
        self.told = 0
        self.listeners.changed = self._changed
        self.listeners.bind()
        self.listeners.serve()

    def _changed(self) -> None:
        self.told += 1

    def own(self, *listeners: str, **more: str) -> Mapping[str, str]:
        keys = {"listeners": ",".join(("PLAINTEXT://h:9092", *listeners)), "listener.security.protocol.map": MAP}
        return keys | {key.replace("_", "."): value for key, value in more.items()}

    def apply(self, own: Mapping[str, str]) -> None:
        self.listeners.configure(effective_config(SETTINGS, {}, own))

    def ports(self) -> dict[str, int]:
        return {name: port for name, (_, port) in self.server.open.items()}


def test_a_new_listener_is_opened_and_advertised_and_a_removed_one_is_closed() -> None:
    scene = Scene()
    scene.apply(scene.own("A://h:1", "B://h:0"))
    assert scene.ports() == {"PLAINTEXT": 9092, "A": 1, "B": 40_000}
    assert scene.server.started == {"PLAINTEXT", "A", "B"}
    assert [(e.listener, e.port) for e in scene.listeners.advertised()] == [
        ("PLAINTEXT", 9092),
        ("A", 1),
        ("B", 40_000),
    ]
    scene.apply(scene.own("B://h:0"))
    assert (scene.server.closed, scene.told) == (["A"], 2)
    scene.apply({})
    assert (scene.ports(), scene.told) == ({"PLAINTEXT": 9092}, 3)


def test_the_same_again_changes_nothing() -> None:
    scene = Scene()
    scene.apply(scene.own("B://h:0"))
    scene.apply(scene.own("B://h:0", max_connections="3"))
    assert (scene.server.closed, scene.told) == ([], 1)


def test_a_port_may_change_and_an_ephemeral_port_may_be_fixed() -> None:
    scene = Scene()
    scene.apply(scene.own("A://h:0"))
    scene.apply(scene.own("A://h:40000"))
    assert scene.server.closed == []
    scene.apply(scene.own("A://h:7"))
    assert (scene.server.closed, scene.ports()["A"]) == (["A"], 7)


def test_a_changed_advertised_address_is_published_without_closing_the_listener() -> None:
    scene = Scene()
    scene.apply(scene.own("A://h:1"))
    scene.apply(scene.own("A://h:1", advertised_listeners="PLAINTEXT://h:9092,A://lb.example:443"))
    assert (scene.server.closed, scene.told) == ([], 2)
    assert str(scene.listeners.advertised()[1]) == "A://lb.example:443"


def test_a_listener_that_cannot_be_opened_is_reported_and_not_advertised_unlike_the_others() -> None:
    scene = Scene()
    scene.server.taken = {1}
    with pytest.raises(ListenerBindError):
        scene.apply(scene.own("A://h:1", "B://h:2"))
    assert scene.ports() == {"PLAINTEXT": 9092, "B": 2}
    assert [e.listener for e in scene.listeners.advertised()] == ["PLAINTEXT", "B"]
    assert "cannot listen on port 1" in scene.listeners.problems[0]
    scene.server.taken.clear()
    scene.apply(scene.own("A://h:1", "B://h:2"))
    assert (scene.listeners.problems, scene.ports()["A"]) == ([], 1)


def test_a_listener_added_while_the_broker_is_fenced_is_paused_until_it_is_unfenced() -> None:
    scene = Scene()
    scene.listeners.pause("fenced")
    assert scene.server.paused == {"PLAINTEXT"}, "clients share it"
    scene.apply(scene.own("A://h:1"))
    assert "A" in scene.server.paused
    scene.listeners.resume()
    assert scene.server.paused == set()
    scene.listeners.pause("fenced")
    assert scene.server.paused == {"A"}, "brokers have one of their own now"


def test_the_inter_broker_listener_is_paused_too_if_it_is_the_clients_only_one() -> None:
    scene = Scene()
    scene.apply(scene.own("A://h:1"))
    scene.listeners.pause("fenced")
    scene.apply({})
    assert scene.server.paused >= {"PLAINTEXT"}


async def test_a_change_reserves_the_listeners_that_it_adds_until_it_ends() -> None:
    scene = Scene()
    async with scene.listeners.opening(lambda: scene.own("A://h:1")) as own:
        assert scene.server.held == {"A": 1}
        scene.apply(own)
        assert await scene.listeners.in_force(own, 1)
    assert scene.server.held == {}


@pytest.mark.parametrize("listeners", [("A://h:1",), ("B://h:2", "A://h:1"), ("C://h:3",), ("A://h:9092",)])
async def test_a_change_that_cannot_be_is_refused_and_holds_nothing(listeners: tuple[str, ...]) -> None:
    scene = Scene()
    scene.server.taken = {1}
    with pytest.raises(KafkaError) as caught:
        async with scene.listeners.opening(lambda: scene.own(*listeners)):
            raise AssertionError("nothing is to be stored")
    assert caught.value.code == ErrorCode.INVALID_REQUEST
    assert (scene.server.held, scene.ports()) == ({}, {"PLAINTEXT": 9092})


async def test_changes_come_one_after_the_other() -> None:
    scene = Scene()
    order: list[str] = []

    async def change(name: str) -> None:
        async with scene.listeners.opening(lambda: scene.own(f"{name}://h:1")):
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            order.append(f"{name} ends")

    await asyncio.gather(change("A"), change("B"))
    assert order == ["A begins", "A ends", "B begins", "B ends"]


async def test_the_wait_for_a_listener_has_a_timeout() -> None:
    scene = Scene()
    assert not await scene.listeners.in_force(scene.own("A://h:1"), 0.01)
