"""The sentence about brokers whose Kubernetes node is lost."""

from sluicegate_operator.planning.rolls.lost_nodes import LostNode, lost_words, why_not_ready


def node(status: str, **fields: str) -> dict[str, object]:
    return {"status": {"conditions": [{"type": "MemoryPressure", "status": "Unknown"}, _ready(status, **fields)]}}


def _ready(status: str, **fields: str) -> dict[str, str]:
    return {"type": "Ready", "status": status, **fields}


def test_a_node_says_why_it_is_not_ready() -> None:
    lost = node("Unknown", reason="NodeStatusUnknown", message="Kubelet stopped posting node status.")
    assert why_not_ready(lost) == "NodeStatusUnknown: Kubelet stopped posting node status"
    assert why_not_ready(node("False", reason="KubeletNotReady")) == "KubeletNotReady"
    assert why_not_ready(node("True")) == ""
    assert why_not_ready({}) == "", "one that has just come"


def test_all_that_is_away_is_named_with_its_node_and_what_to_do() -> None:
    assert lost_words([]) == ""
    words = lost_words(
        [LostNode("w1", "NodeStatusUnknown", ("broker 1", "controller 1000")), LostNode("w2", "", ("broker 2",))]
    )
    assert words == (
        "broker 1, controller 1000 are lost: node w1 is NotReady (NodeStatusUnknown); broker 2 is lost: node"
        " w2 does not exist; restore the node; if its machine is permanently lost, delete the Node, and"
        " Kubernetes replaces the pods"
    )


def test_many_are_counted() -> None:
    words = lost_words([LostNode(f"w{n}", "x", tuple(f"broker {n * 9 + m}" for m in range(5))) for n in range(5)])
    assert "broker 0, broker 1, broker 2 and 2 more are lost: node w0" in words
    assert "2 more nodes are lost" in words
