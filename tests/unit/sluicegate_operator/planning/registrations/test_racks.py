"""The pods that get a rack, and the report on the others."""

from sluicegate_operator.planning.registrations.racks import NodeLabels, RackPod, RackWait, nodes_to_read, plan_racks

ZONE = "topology.kubernetes.io/zone"
TOLD = RackPod("shop-brokers-0", "u0", node="n0", rack="a")
NEW = RackPod("shop-brokers-1", "u1", node="n1")
UNBOUND = RackPod("shop-brokers-2", "u2")


def only_wait(pod: RackPod, nodes: dict[str, NodeLabels]) -> RackWait:
    plan = plan_racks(ZONE, [pod], nodes)
    assert (plan.assign, plan.known) == ((), 0)
    [wait] = plan.waiting
    assert wait.pod == pod.name
    return wait


def test_a_scheduled_pod_gets_the_label_of_its_node() -> None:
    plan = plan_racks(ZONE, [UNBOUND, NEW, TOLD], {"n1": NodeLabels({ZONE: "b", "other": "c"})})
    [assignment] = plan.assign
    assert (assignment.pod, assignment.rack) == (NEW, "b")
    assert assignment.sentence == "shop-brokers-1 is on node n1, which is in rack b"
    assert plan.known == 1
    assert plan.waiting == (), "a pod that is about to be put on a node is nobody's business"


def test_only_nodes_of_pods_that_are_to_be_told_are_read_and_each_once() -> None:
    other = RackPod("shop-brokers-3", "u3", node="n1")
    assert nodes_to_read([TOLD, NEW, other, UNBOUND]) == ["n1"]


def test_a_pod_keeps_its_rack_when_its_nodes_label_changes() -> None:
    plan = plan_racks(ZONE, [TOLD], {"n0": NodeLabels({ZONE: "elsewhere"})})
    assert (plan.known, plan.assign, plan.waiting) == (1, (), ())


def test_a_node_without_the_label_or_with_an_empty_one_needs_a_person() -> None:
    for labels in ({"zone": "b"}, {ZONE: ""}):
        wait = only_wait(NEW, {"n1": NodeLabels(labels)})
        assert (wait.reason, wait.needs_a_person) == ("NodeLabelMissing", True)
        assert f"node n1 has no label {ZONE}; label it (kubectl label node n1 {ZONE}=...)" in wait.message


def test_labels_that_cannot_be_read_are_not_taken_for_missing_ones() -> None:
    wait = only_wait(NEW, {"n1": NodeLabels(None, "the operator is not allowed to get nodes")})
    assert (wait.reason, wait.needs_a_person) == ("NodeUnreadable", True)
    assert wait.message.endswith("cannot be read: the operator is not allowed to get nodes")


def test_the_schedulers_reason_is_passed_on_as_temporary() -> None:
    unschedulable = RackPod("shop-brokers-2", "u2", failing="Unschedulable: 0/3 nodes are available")
    wait = only_wait(unschedulable, {})
    assert (wait.reason, wait.needs_a_person) == ("NotScheduled", False)
    assert "only nodes with the label topology.kubernetes.io/zone are suitable: Unschedulable: 0/3" in wait.message
