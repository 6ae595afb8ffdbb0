"""Tags that are labels of the Kubernetes nodes that brokers are on. Pure.

They follow a broker that comes up on another node, and a node that is labelled anew.
"""

from collections.abc import Mapping

from sluicegate_operator.api.broker_tags import tag_key
from sluicegate_operator.planning.racks import NodeLabels


def node_tags(
    label_of: Mapping[str, str], node_of: Mapping[int, str], nodes: Mapping[str, NodeLabels]
) -> dict[int, dict[str, str]]:
    """By broker, as keys of its configuration. `label_of` is tagsFromNodeLabels; `nodes` must hold each of `node_of`. A
    broker whose node could not be read is left out; a label that is not there, or is empty, is no tag."""
    return {
        broker_id: {
            tag_key(name): value for name, label in sorted(label_of.items()) if (value := labels.get(label, ""))
        }
        for broker_id, node in sorted(node_of.items())
        if (labels := nodes[node].labels) is not None
    }
