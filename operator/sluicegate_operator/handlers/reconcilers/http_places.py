"""The HTTP addresses of brokers: those of their pods."""

from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.snapshot import gather_cluster
from sluicegate_operator.planning.layout.cluster_layout import HTTP_PORT
from sluicegate_operator.quotas.observing.observed import HttpPlaces


async def http_places(context: Context, key: ClusterKey) -> HttpPlaces:
    """Return the place of each broker's HTTP listener; no place for a cluster that was deleted."""
    cluster = await gather_cluster(context.kube, key)
    brokers = await context.fleet.broker_addresses(cluster) if cluster is not None else ()
    return {broker.broker_id: (broker.host, HTTP_PORT) for broker in brokers}
