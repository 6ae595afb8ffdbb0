"""The message for an object whose clusterRef names no suitable BrokerCluster."""

from sluicegate_operator.api.schema.metadata import Resource


def cluster_missing_words(resource: Resource, *, bundled: bool = False) -> str:
    """Return the message about the missing cluster.

    `bundled`: the object needs a BrokerCluster with brokers of its own. A BrokerCluster that is being deleted counts as
    missing, although a finalizer of another client may keep it.
    """
    what = "bundled BrokerCluster" if bundled else "BrokerCluster"
    return (
        f"{what} {resource.cluster_name} does not exist in namespace {resource.namespace}, or is being deleted; create"
        " it or correct clusterRef"
    )
