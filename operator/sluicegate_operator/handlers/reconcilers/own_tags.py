"""Tags of individual brokers, from labels of the Kubernetes nodes that their pods run on."""

import asyncio

from sluicegate_operator.api.models.broker_cluster import BrokerCluster, Brokers
from sluicegate_operator.api.models.parts.broker_tags import tag_key
from sluicegate_operator.fleet.pods.racks import placed_brokers, read_labels
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.planning.layout.broker_config import OwnTags
from sluicegate_operator.planning.registrations.node_tags import node_tags


async def own_tags(
    context: Context, cluster: BrokerCluster, brokers: Brokers, everybody: frozenset[int]
) -> tuple[OwnTags, dict[int, str]]:
    """Return the tags of each broker, and by broker the reason why its tags are not known.

    Nodes are not watched: each reconcile reads them again. Raises KubeError for an error that concerns all nodes.
    """
    label_of = brokers.tags_from_node_labels
    if not label_of:
        return OwnTags(brokers=everybody), {}
    node_of = placed_brokers(await context.fleet.pods(cluster))
    names = sorted(set(node_of.values()))
    read = await asyncio.gather(*(read_labels(context.kube, name) for name in names))
    nodes = dict(zip(names, read, strict=True))
    unknown = {
        broker_id: f"the broker's tags stay unchanged, because the labels of node {name} cannot be read:"
        f" {nodes[name].unseen}"
        for broker_id, name in node_of.items()
        if nodes[name].labels is None
    }
    for broker_id, sentence in unknown.items():
        if nodes[node_of[broker_id]].may_pass:
            continue
        await context.post(cluster, "Warning", "NodeUnreadable", f"broker {broker_id}: {sentence}")
    return OwnTags(frozenset(map(tag_key, label_of)), node_tags(label_of, node_of, nodes), everybody), unknown
