"""The brokers that the operator fences: every kind of evidence, and every kind that is not enough."""

from dataclasses import replace
from typing import Any

import pytest

from sluicegate_operator.planning.registrations.fencing import BrokerPod, ContainerEnd, plan_fencing, session_pods
from sluicegate_operator.planning.registrations.overview import BrokerOverview, BrokerState, ClusterOverview


def fenced(state: BrokerState, pods: list[BrokerPod], age_s: float | None = 0.5, host: str | None = "10.0.0.1") -> str:
    """Why broker 1 is fenced; empty when it is not."""
    broker = BrokerOverview(1, 41, "i", state, heartbeat_age_s=age_s, host=host)
    other = BrokerOverview(2, 42, "i", BrokerState.ONLINE, host="10.0.0.2")
    seen = ClusterOverview("c", 1000, 1, 9, (broker, other))
    orders = plan_fencing(seen, [*pods, BrokerPod("shop-brokers-2", 2, "10.0.0.2")])
    assert [(order.broker_id, order.epoch) for order in orders] in ([], [(1, 41)])
    return orders[0].why if orders else ""


HERE = BrokerPod("shop-brokers-1", 1, "10.0.0.1")
ONLINE = BrokerState.ONLINE


@pytest.mark.parametrize(
    ("state", "pods", "age_s", "word"),
    [
        pytest.param(ONLINE, [HERE], 0.5, "", id="a pod that is there"),
        pytest.param(ONLINE, [HERE], 60.0, "", id="silence alone: the session decides"),
        pytest.param(ONLINE, [], 0.5, "does not exist any more", id="a deleted pod, at once"),
        pytest.param(
            BrokerState.STOPPING, [], 0.5, "does not exist any more", id="a pod that was killed while it stopped"
        ),
        pytest.param(BrokerState.FENCED, [], 0.5, "does not exist any more", id="a fenced one holds its id as well"),
        pytest.param(BrokerState.OFFLINE, [], None, "", id="no session, nothing to end"),
        pytest.param(ONLINE, [BrokerPod("p", 1, "10.0.0.9")], 0.5, "was replaced by p", id="the pod after it"),
        pytest.param(ONLINE, [BrokerPod("p", 1, "")], 0.5, "", id="an address that is not known proves nothing"),
        pytest.param(ONLINE, [BrokerPod("p", 1, "10.0.0.1", node_lost=True)], 5.0, "node", id="node lost and silent"),
        pytest.param(ONLINE, [BrokerPod("p", 1, "10.0.0.1", node_lost=True)], 1.0, "", id="node lost, broker heard"),
        pytest.param(ONLINE, [BrokerPod("p", 1, "10.0.0.1", node_lost=True)], None, "", id="node lost, age unknown"),
    ],
)
def test_evidence(state: BrokerState, pods: list[BrokerPod], age_s: float | None, word: str) -> None:
    why = fenced(state, pods, age_s)
    assert word in why
    assert bool(why) is bool(word)


def test_a_broker_without_a_known_address_is_judged_by_its_pod_alone() -> None:
    assert fenced(ONLINE, [HERE], host=None) == ""
    assert "does not exist any more" in fenced(ONLINE, [], host=None)


ENDED_MS = 1_700_000_000_000
CRASHED = replace(HERE, ended=ContainerEnd(ENDED_MS, "OOMKilled, exit code 137"))


def orders(
    pod: BrokerPod, began_ms: int | None, told: frozenset[tuple[int, int]] = frozenset(), **changes: Any
) -> list[str]:
    broker = BrokerOverview(1, 41, "i", ONLINE, heartbeat_age_s=0.5, host="10.0.0.1", began_ms=began_ms)
    seen = ClusterOverview("c", 1000, 1, 9, (replace(broker, **changes),))
    return [order.why for order in plan_fencing(seen, [pod], told)]


@pytest.mark.parametrize(
    ("began_ms", "count"),
    [
        pytest.param(ENDED_MS - 1, 1, id="it began before the end: it was in there"),
        pytest.param(ENDED_MS, 0, id="in the same second: it may be the one after it"),
        pytest.param(ENDED_MS + 900, 0, id="the process after it, also where the pod's status is old"),
        pytest.param(None, 0, id="a broker that does not tell when it began"),
    ],
)
def test_the_end_of_a_container_ends_what_began_before_it(began_ms: int | None, count: int) -> None:
    assert len(orders(CRASHED, began_ms)) == count
    assert orders(HERE, began_ms) == []


def test_the_event_names_the_pod_and_how_its_container_ended() -> None:
    [why] = orders(CRASHED, ENDED_MS - 60_000)
    assert why == ("the container of shop-brokers-1 with the process of broker 1 ended (OOMKilled, exit code 137)")


def test_a_broker_without_a_session_is_not_told_of_again() -> None:
    assert orders(CRASHED, ENDED_MS - 60_000, state=BrokerState.OFFLINE) == []


def test_a_broker_that_proves_alive_is_not_fenced_a_second_time() -> None:
    """A guest's clock that is behind its host's would otherwise fence a live broker for ever."""
    began_ms, told = ENDED_MS - 60_000, frozenset({(1, 41)})
    assert orders(CRASHED, began_ms, told) == []
    assert len(orders(CRASHED, began_ms, told, heartbeat_age_s=3.0)) == 1
    assert len(orders(CRASHED, began_ms, told, epoch=42)) == 1
    assert len(orders(replace(CRASHED, host="10.0.0.9"), began_ms, told)) == 1, "a pod that is gone stays gone"


def view_of(epoch: int, host: str = "10.0.0.1", state: BrokerState = ONLINE) -> ClusterOverview:
    return ClusterOverview("c", 1000, 1, 9, (BrokerOverview(1, epoch, "i", state, heartbeat_age_s=0.5, host=host),))


def test_a_live_broker_registered_before_its_address_is_reported_is_not_fenced() -> None:
    starting, running = replace(HERE, uid="b", host=""), replace(HERE, uid="b")
    known = session_pods(view_of(41), [starting], {})
    assert plan_fencing(view_of(41), [starting], seen_in=known) == ()
    known = session_pods(view_of(41), [running], known)
    assert known == {(1, 41): "b"}
    assert plan_fencing(view_of(41), [running], seen_in=known) == ()


def test_a_session_of_the_pod_before_is_fenced_though_its_successor_has_no_address_yet() -> None:
    known = session_pods(view_of(41), [replace(HERE, uid="a")], {})
    starting = replace(HERE, uid="b", host="")
    [order] = plan_fencing(view_of(41), [starting], seen_in=session_pods(view_of(41), [starting], known))
    assert order.why == "the pod of broker 1 at 10.0.0.1 was replaced by shop-brokers-1"
    assert plan_fencing(view_of(42), [starting], seen_in=session_pods(view_of(42), [starting], known)) == ()


def test_a_successor_at_the_same_address_is_another_pod() -> None:
    known = session_pods(view_of(41), [replace(HERE, uid="a")], {})
    assert len(plan_fencing(view_of(41), [replace(HERE, uid="b")], seen_in=known)) == 1


def test_sessions_that_ended_are_forgotten() -> None:
    known = {(1, 40): "a", (1, 41): "b", (7, 5): "c"}
    assert session_pods(view_of(41), [], known) == {(1, 41): "b"}
    assert session_pods(view_of(41, state=BrokerState.OFFLINE), [replace(HERE, uid="b")], known) == {}
