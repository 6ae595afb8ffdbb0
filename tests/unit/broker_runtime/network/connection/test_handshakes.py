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
ANNA = Principal(USER, "anna")


class Shaking(MemoryTransport):
    """A transport whose handshake ends when the test says so."""

    ended: Callable[[Principal | None], None]

    def on_handshake(self, ended: Callable[[Principal | None], None], /) -> bool:
        self.ended = ended
        return True


class Client:
    listener = "SECURE"

    def __init__(self, number: int) -> None:
        self.id = number
        self.principal = ANONYMOUS
        self.problems: list[str] = []

    def end(self, event: object, problem: object) -> None:
        del event
        self.problems.append(str(problem))


class Scene:
    def __init__(self) -> None:
        self.counts = AuthenticationCounts()
        self.handshakes = Handshakes(TIMEOUT_S, self.counts)

    def begin(self, number: int, now_s: float, transport: MemoryTransport) -> Client:
        client: Any = Client(number)
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
