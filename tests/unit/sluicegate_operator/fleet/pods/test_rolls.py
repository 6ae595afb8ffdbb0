"""The input of a roll: nodes made of pods and StatefulSets, and partitions that agree with the controller."""

from dataclasses import replace

import pytest

from sluicegate_operator.fleet.pods.pods import NodePod
from sluicegate_operator.fleet.pods.rolls import NodeSetSeen, agrees, node_views, partition_states
from sluicegate_operator.kafka_admin.views import PartitionView, TopicView
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.planning.layout.restart_reasons import ReasonKind, node_revision
from sluicegate_operator.planning.registrations.overview import BrokerOverview, BrokerState, ClusterOverview
from sluicegate_operator.planning.rolls.roll import PartitionState
from sluicegate_operator.resources.labels import RESTARTED_AT, REVISION

OLD, NEW = node_revision({"num.partitions": "3"}), node_revision({"num.partitions": "4"})


def pod(ordinal: int, revision: str | None = NEW.encode(), *, ready: bool = True, deleting: bool = False) -> NodePod:
    return NodePod(
        name=f"shop-brokers-{ordinal}",
        role=Role.BROKER,
        ordinal=ordinal,
        host="10.0.0.1",
        ready=ready,
        deleting=deleting,
        annotations={} if revision is None else {REVISION: revision},
    )


def test_every_node_that_should_be_there_is_seen_also_without_a_pod() -> None:
    wanted = NodeSetSeen(4, NEW, observed=True)
    pods = [pod(0), pod(1, OLD.encode(), ready=False), pod(3, None, deleting=True), pod(4)]
    views = node_views("shop", Role.BROKER, wanted, pods)
    assert [(view.name, view.present, view.ready, view.deleting) for view in views] == [
        ("shop-brokers-0", True, True, False),
        ("shop-brokers-1", True, False, False),
        ("shop-brokers-2", False, False, False),
        ("shop-brokers-3", True, True, True),
    ]
    assert [[reason.kind for reason in view.reasons] for view in views] == [
        [],
        [ReasonKind.CONFIG_CHANGED],
        [],
        [ReasonKind.UNKNOWN_REVISION],
    ]
    assert views[1].reasons[0].keys == ("num.partitions",)


def test_a_restart_requested_by_a_user_is_a_reason_until_the_pod_is_newer() -> None:
    wanted = NodeSetSeen(2, NEW, observed=True, restart_requested_at="2026-11-23T02:00:00Z")
    before = replace(pod(0), annotations={REVISION: NEW.encode(), RESTARTED_AT: "2026-11-22T09:00:00Z"})
    after = replace(pod(1), annotations={REVISION: NEW.encode(), RESTARTED_AT: "2026-11-23T02:00:00Z"})
    asked, done = node_views("shop", Role.BROKER, wanted, [before, after])
    assert [str(reason) for reason in asked.reasons] == [
        "RestartRequested (kubectl rollout restart at 2026-11-23T02:00:00Z)"
    ]
    assert done.reasons == ()
    taken_back = replace(wanted, restart_requested_at="")
    assert [view.reasons for view in node_views("shop", Role.BROKER, taken_back, [before, after])] == [(), ()]


def test_controllers_are_known_by_their_node_ids() -> None:
    [view] = node_views("shop", Role.CONTROLLER, NodeSetSeen(1, NEW, observed=True), [])
    assert (view.name, view.node_id) == ("shop-controllers-0", 1000)


TOPICS = {
    "a": TopicView("a", None, (PartitionView(0, 1, (1, 2, 3), (1, 2)), PartitionView(1, 2, (2, 3, 1), (2, 3, 1)))),
    "gone": TopicView("gone", None, (PartitionView(0, 1, (1,), (1,)),)),
}


def test_a_topic_that_went_between_two_answers_is_left_out() -> None:
    assert partition_states(TOPICS, {"a": 2}) == (
        PartitionState("a", 0, 1, (1, 2, 3), (1, 2), 2),
        PartitionState("a", 1, 2, (2, 3, 1), (2, 3, 1), 2),
    )


def overview(**out_of_sync: int) -> ClusterOverview:
    brokers = tuple(
        BrokerOverview(id_, 5, "i", BrokerState.ONLINE, replicas=2, out_of_sync=out_of_sync.get(f"b{id_}", 0))
        for id_ in (1, 2, 3)
    )
    return ClusterOverview("c", 1000, 1, 10, brokers)


@pytest.mark.parametrize(
    ("seen", "agree"),
    [
        (overview(b3=1), True),
        # A broker's Metadata without the controller's latest decision, or with a later one.
        (overview(b3=1, b2=1), False),
        (overview(), False),
    ],
)
def test_partitions_count_only_when_they_are_what_the_controller_counts(seen: ClusterOverview, agree: bool) -> None:
    assert agrees(seen, partition_states(TOPICS, {"a": 2})) is agree


def test_a_replica_on_a_broker_that_is_not_registered_does_not_disagree() -> None:
    states = (*partition_states(TOPICS, {"a": 2}), PartitionState("b", 0, None, (9,), (9,)))
    assert agrees(overview(b3=1), states)
