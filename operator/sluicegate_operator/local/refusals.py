"""What `sluicegate up` refuses in files, because an API server would or because a laptop cannot run it. Pure."""

from sluicegate_operator.api import BrokerListener, ConnectionQuota, Manifests, ObserverPlugin
from sluicegate_operator.api.schema.rules import broken_rules


def not_for_a_laptop(manifests: Manifests) -> list[str]:
    """Return a sentence for each setting that is valid in Kubernetes and cannot run here."""
    racks = [
        f"BrokerCluster {cluster.name}: spec.brokers.rack needs labels of Kubernetes nodes, and `sluicegate"
        " up` has no Kubernetes nodes; remove it (and rollout.strategy: Rack)"
        for cluster in manifests.clusters
        if cluster.spec.topology_key is not None
    ]
    labels = [
        f"BrokerCluster {cluster.name}: spec.brokers.tagsFromNodeLabels needs labels of Kubernetes nodes, and"
        " `sluicegate up` has no Kubernetes nodes; remove it (brokers.tags works)"
        for cluster in manifests.clusters
        if cluster.spec.brokers is not None and cluster.spec.brokers.tags_from_node_labels
    ]
    code = [
        f"ObserverPlugin {plugin.name}: spec.source needs Kubernetes, which `sluicegate up` does not use;"
        " remove it, and put the module where Python finds it (PYTHONPATH)"
        for plugin in manifests.of_kind(ObserverPlugin)
        if plugin.spec.source is not None
    ]
    pods = [
        f"ConnectionQuota {quota.name}: spec.target.workload selects pods of Kubernetes, and `sluicegate up`"
        " has no pods; set target.cidr or target.ip"
        for quota in manifests.of_kind(ConnectionQuota)
        if quota.spec.target.workload is not None
    ]
    accounts = [
        f"BrokerListener {listener.name}: spec.authentication.type serviceAccount needs tokens of Kubernetes, and"
        " `sluicegate up` has no API server; use scram-sha-512 or oauth"
        for listener in manifests.of_kind(BrokerListener)
        if listener.spec.authentication is not None and listener.spec.authentication.type == "serviceAccount"
    ]
    return (
        racks
        + labels
        + code
        + pods
        + accounts
        + [
            f"BrokerCluster {cluster.name}: spec.controllers.replicas is {cluster.spec.controller_count}, and"
            " `sluicegate up` runs one controller, because standbys share a journal in the Kubernetes API; set"
            " it to 1"
            for cluster in manifests.clusters
            if cluster.spec.shares_journal
        ]
    )


def broken_transitions(before: Manifests, after: Manifests) -> list[str]:
    """Return the changes that an API server with the objects `before` would refuse in `after`."""
    earlier = {resource.identity: resource for resource in before.resources}
    sentences = []
    for resource in after.resources:
        old = earlier.get(resource.identity)
        if old is not None:
            sentences += [f"{resource.kind} {resource.name}: {problem}" for problem in broken_rules(resource, old)]
    return sentences
