"""The handshakes in progress: deadlines, counts and principals."""

from collections.abc import Callable
from typing import Any

import pytest

from broker_runtime.network.connection.connection import HANDSHAKE_CUT_OFF, HANDSHAKE_REFUSED
from broker_runtime.network.connection.handshakes import Handshakes
from broker_runtime.security.authentication_counts import AuthenticationCounts
from broker_runtime.security.principal import ANONYMOUS, USER, Principal
from tests.support.fakes.memory_transport import MemoryTransport

TIMEOUT_S = 30.0
AT_ONCE_MAX = 3
ANNA = Principal(USER, "anna")


class Shaking(MemoryTransport):
    """A transport whose handshake ends when the test says so."""

    ended: Callable[[Principal | None], None]
    begun: Callable[[], None]

    def on_handshake(self, ended: Callable[[Principal | None], None], begun: Callable[[], None], /) -> bool:
        self.ended, self.begun = ended, begun
        return True


class Client:
    def __init__(self, number: int, listener: str = "SECURE") -> None:
        self.id = number
        self.listener = listener
        self.principal = ANONYMOUS
        self.problems: list[str] = []

    def end(self, event: object, problem: object) -> None:
        del event
        self.problems.append(str(problem))


class Scene:
    def __init__(self) -> None:
        self.counts = AuthenticationCounts()
        self.handshakes = Handshakes(TIMEOUT_S, AT_ONCE_MAX, self.counts)

    def begin(self, number: int, now_s: float, transport: MemoryTransport, listener: str = "SECURE") -> Client:
        client: Any = Client(number, listener)
        self.handshakes.begin(client, transport, now_s)
        made: Client = client
        return made

    def count(self, name: str) -> int:
        return self.counts.by_listener.get("SECURE", {}).get(f"{name}_authentication_total", 0)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_transport_without_a_handshake_is_not_watched(scene: Scene) -> None:
    scene.begin(1, 0, MemoryTransport())
    assert len(scene.handshakes) == 0


@pytest.mark.parametrize(("principal", "counted"), [(ANNA, 1), (ANONYMOUS, 1), (None, 0)])
def test_the_end_of_a_handshake_sets_the_principal_unless_sasl_does(
    scene: Scene, principal: Principal | None, counted: int
) -> None:
    transport = Shaking()
    client = scene.begin(1, 0, transport)
    transport.ended(principal)
    assert client.principal == (principal or ANONYMOUS)
    assert scene.count("successful") == counted
    scene.handshakes.end_overdue(TIMEOUT_S + 1)
    assert client.problems == []


def test_beyond_the_limit_of_a_listener_the_oldest_handshake_ends(scene: Scene) -> None:
    transports = [Shaking() for _ in range(8)]
    clients = [scene.begin(number, 0, each) for number, each in enumerate(transports)]
    other = Shaking()
    elsewhere = scene.begin(20, 0, other, "INTERNAL")
    other.begun()
    for each in reversed(transports[:4]):
        each.begun()
    assert [bool(client.problems) for client in clients] == [False, False, False, True, False, False, False, False]
    assert "sluicegate.tls.handshakes.max" in clients[3].problems[0]
    transports[2].ended(ANNA)
    scene.handshakes.closed(1)
    transports[4].begun()
    transports[5].begun()
    assert [number for number, client in enumerate(clients) if client.problems] == [3]
    transports[6].begun()
    assert [number for number, client in enumerate(clients) if client.problems] == [0, 3]
    assert elsewhere.problems == []


def test_only_a_refused_handshake_is_a_failed_authentication(scene: Scene) -> None:
    for number, kind in enumerate((HANDSHAKE_REFUSED, HANDSHAKE_CUT_OFF, "frame-too-large")):
        scene.begin(number, 0, Shaking())
        scene.handshakes.refused(number, "SECURE", kind)
        scene.handshakes.closed(number)
    assert scene.count("failed") == 1
    assert len(scene.handshakes) == 0


def test_overdue_handshakes_end_in_order_and_a_bounded_number_at_a_time(scene: Scene) -> None:
    early = [scene.begin(number, 0, Shaking()) for number in range(150)]
    late = scene.begin(200, 1, Shaking())
    scene.handshakes.end_overdue(TIMEOUT_S - 0.1)
    assert not any(client.problems for client in early)
    scene.handshakes.end_overdue(TIMEOUT_S)
    assert sum(bool(client.problems) for client in early) == 100
    scene.handshakes.end_overdue(TIMEOUT_S)
    assert [client.problems for client in early] == [
        ["the TLS handshake has taken longer than 30 s (sluicegate.tls.handshake.timeout.ms)"]
    ] * 150
    assert late.problems == []
