"""Who is fenced on the operator's word: every kind of evidence, and every kind that is not enough."""

import pytest

from sluicegate_operator.planning.fencing import BrokerPod, plan_fencing
from sluicegate_operator.planning.overview import BrokerOverview, BrokerState, ClusterOverview


def fenced(state: BrokerState, pods: list[BrokerPod], age_s: float | None = 0.5, host: str | None = "10.0.0.1") -> str:
    """Why broker 1 is fenced; empty when it is left alone."""
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
        pytest.param(ONLINE, [], 0.5, "is gone", id="a deleted pod, at once"),
        pytest.param(BrokerState.STOPPING, [], 0.5, "is gone", id="a pod that was killed while it stopped"),
        pytest.param(BrokerState.FENCED, [], 0.5, "is gone", id="a fenced one holds its id as well"),
        pytest.param(BrokerState.OFFLINE, [], None, "", id="no session, nothing to end"),
        pytest.param(ONLINE, [BrokerPod("p", 1, "10.0.0.9")], 0.5, "successor", id="the pod after it"),
        pytest.param(ONLINE, [BrokerPod("p", 1, "")], 0.5, "successor", id="the pod after it has no address yet"),
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
    assert "is gone" in fenced(ONLINE, [], host=None)
