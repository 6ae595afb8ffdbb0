"""When a roll is over: planning says which nodes are still to be restarted, this is about the last of them."""

import pytest

from sluicegate_operator.local.nodes import what_is_left
from sluicegate_operator.planning.cluster_layout import Role
from sluicegate_operator.planning.overview import BrokerOverview, BrokerState, ClusterOverview
from sluicegate_operator.planning.roll import NodeView

CONTROLLER = NodeView("controller 1000 of shop", Role.CONTROLLER, 1000)
BROKER = NodeView("broker 0 of shop", Role.BROKER, 0)


def overview(state: BrokerState = BrokerState.ONLINE, out_of_sync: int = 0) -> ClusterOverview:
    return ClusterOverview("id", 1000, 1, 9, (BrokerOverview(0, 5, "", state, replicas=4, out_of_sync=out_of_sync),))


def test_nothing_is_left_when_all_are_ready_online_and_in_sync() -> None:
    assert what_is_left([BROKER, CONTROLLER], overview()) == ""


@pytest.mark.parametrize(
    ("nodes", "seen", "sentence"),
    [
        (
            [BROKER, NodeView("controller 1000 of shop", Role.CONTROLLER, 1000, ready=False)],
            None,
            "controller 1000 of shop is not ready",
        ),
        (
            [NodeView("broker 0 of shop", Role.BROKER, 0, ready=False, failing="crash loop")],
            overview(),
            "broker 0 of shop is not ready: crash loop",
        ),
        ([BROKER, CONTROLLER], None, "no active controller says which brokers are online"),
        ([BROKER], overview(BrokerState.FENCED), "broker 0 of shop is Fenced"),
        ([BROKER], ClusterOverview("id", 1000, 1, 9), "broker 0 of shop is not registered"),
        ([BROKER], overview(out_of_sync=2), "broker 0 is not back in 2 in-sync sets"),
    ],
)
def test_a_roll_goes_on_until_the_last_node_is_back(
    nodes: list[NodeView], seen: ClusterOverview | None, sentence: str
) -> None:
    assert what_is_left(nodes, seen) == sentence
