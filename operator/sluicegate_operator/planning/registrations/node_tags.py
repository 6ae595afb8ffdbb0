"""Broker tags that are labels of the brokers' Kubernetes nodes. Pure.

The tags change when a broker starts on another node, and when its node's labels change.
"""

from collections.abc import Mapping

from sluicegate_operator.api.models.parts.broker_tags import tag_key
from sluicegate_operator.planning.registrations.racks import NodeLabels


def node_tags(
    label_of: Mapping[str, str], node_of: Mapping[int, str], nodes: Mapping[str, NodeLabels]
) -> dict[int, dict[str, str]]:
    """Return the tags of brokers by their nodes' labels, as keys of the brokers' configuration, by broker.

    `label_of` is tagsFromNodeLabels; `nodes` must contain each node in `node_of`. A broker whose node could not be read
    is left out. A label that is missing or empty makes no tag.
    """
    return {
        broker_id: {
            tag_key(name): value for name, label in sorted(label_of.items()) if (value := labels.get(label, ""))
        }
        for broker_id, node in sorted(node_of.items())
        if (labels := nodes[node].labels) is not None
    }
