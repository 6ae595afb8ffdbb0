"""Labels of nodes as tags of the brokers that are on them."""

from sluicegate_operator.planning.registrations.node_tags import node_tags
from sluicegate_operator.planning.registrations.racks import NodeLabels

ZONE = "topology.kubernetes.io/zone"
LABEL_OF = {"zone": ZONE, "aws.disk": "example.org/disk"}


def test_each_broker_has_what_its_node_has() -> None:
    nodes = {
        "n1": NodeLabels({ZONE: "a", "example.org/disk": "ssd", "other": "x"}),
        "n2": NodeLabels({ZONE: "b", "example.org/disk": ""}),
        "n3": NodeLabels({}),
    }
    assert node_tags(LABEL_OF, {0: "n1", 1: "n2", 2: "n3", 3: "n1"}, nodes) == {
        0: {"tag.zone": "a", "tag.aws.disk": "ssd"},
        1: {"tag.zone": "b"},
        2: {},
        3: {"tag.zone": "a", "tag.aws.disk": "ssd"},
    }


def test_of_a_node_that_cannot_be_read_nothing_is_known() -> None:
    nodes = {"n1": NodeLabels({ZONE: "a"}), "n2": NodeLabels(None, "the operator is not allowed to get nodes")}
    assert node_tags(LABEL_OF, {0: "n1", 1: "n2"}, nodes) == {0: {"tag.zone": "a"}}
