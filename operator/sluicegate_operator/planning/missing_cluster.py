"""The sentence of an object whose clusterRef names no BrokerCluster that it could be of."""

from sluicegate_operator.api.metadata import Resource


def cluster_missing_words(resource: Resource, *, bundled: bool = False) -> str:
    """`bundled`: only one with brokers of its own would do."""
    what = "bundled BrokerCluster" if bundled else "BrokerCluster"
    return (
        f"there is no {what} {resource.cluster_name} in namespace {resource.namespace}; create it or correct clusterRef"
    )
