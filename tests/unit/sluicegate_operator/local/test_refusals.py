from collections.abc import Sequence
from typing import Any

from sluicegate_operator.api import Manifests, parse_resource
from sluicegate_operator.local.refusals import (
    broken_transitions,
    not_for_a_laptop,
)


def resource(kind: str, name: str, spec: dict[str, Any], namespace: str = "default") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "sluicegate.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def cluster(name: str = "shop", namespace: str = "default") -> dict[str, Any]:
    return resource("BrokerCluster", name, {"brokers": {"replicas": 3, "storage": {"size": "1Gi"}}}, namespace)


def topic(name: str, **spec: Any) -> dict[str, Any]:
    return resource("Topic", name, {"clusterRef": {"name": "shop"}, "partitions": 6, **spec})


def manifests(documents: Sequence[dict[str, Any]]) -> Manifests:
    return Manifests.of([parse_resource(document) for document in documents])


def test_transitions_are_judged_as_an_api_server_would() -> None:
    before, after = manifests([cluster(), topic("orders")]), manifests([cluster(), topic("orders", partitions=2)])
    assert [sentence.split(":")[0] for sentence in broken_transitions(before, after)] == ["Topic orders"]
    assert broken_transitions(after, before) == []
    assert broken_transitions(before, manifests([])) == []


def test_standby_controllers_are_for_kubernetes() -> None:
    several = cluster()
    several["spec"]["controllers"] = {"replicas": 3}
    (sentence,) = not_for_a_laptop(manifests([several]))
    assert sentence.startswith("BrokerCluster shop: spec.controllers.replicas is 3")
    assert not_for_a_laptop(manifests([cluster()])) == []


def test_racks_are_of_kubernetes_nodes_and_a_laptop_has_none() -> None:
    zoned = cluster()
    zoned["spec"]["brokers"]["rack"] = {"topologyKey": "topology.kubernetes.io/zone"}
    (sentence,) = not_for_a_laptop(manifests([zoned]))
    assert sentence.startswith("BrokerCluster shop: spec.brokers.rack needs labels of Kubernetes nodes")


def test_tags_of_a_manifest_are_for_a_laptop_too_and_labels_of_nodes_are_not() -> None:
    tagged = cluster()
    tagged["spec"]["brokers"]["tags"] = {"team": "payments"}
    assert not_for_a_laptop(manifests([tagged])) == []
    tagged["spec"]["brokers"]["tagsFromNodeLabels"] = {"zone": "topology.kubernetes.io/zone"}
    (sentence,) = not_for_a_laptop(manifests([tagged]))
    assert sentence.startswith("BrokerCluster shop: spec.brokers.tagsFromNodeLabels needs labels of Kubernetes nodes")


def test_code_from_elsewhere_is_of_kubernetes() -> None:
    spec = {"clusterRef": {"name": "shop"}, "class": "acme.Orders", "source": {"configMap": {"name": "mine"}}}
    (sentence,) = not_for_a_laptop(manifests([cluster(), resource("ObserverPlugin", "orders", spec)]))
    assert sentence.startswith("ObserverPlugin orders: spec.source needs Kubernetes")


def test_workloads_are_pods_of_kubernetes() -> None:
    spec = {"clusterRef": {"name": "shop"}, "target": {"workload": {"podSelector": {}}}, "maxConnections": 1}
    (sentence,) = not_for_a_laptop(manifests([cluster(), resource("ConnectionQuota", "pods", spec)]))
    assert sentence.startswith("ConnectionQuota pods: spec.target.workload selects pods of Kubernetes")


def test_tokens_of_service_accounts_are_of_kubernetes() -> None:
    spec = {"clusterRef": {"name": "shop"}, "name": "SECURE", "port": 9095, "tls": {"secretName": "shop-tls"}}
    assert not_for_a_laptop(manifests([cluster(), resource("BrokerListener", "secure", spec)])) == []
    spec["authentication"] = {"type": "serviceAccount"}
    (sentence,) = not_for_a_laptop(manifests([cluster(), resource("BrokerListener", "secure", spec)]))
    assert sentence.startswith(
        "BrokerListener secure: spec.authentication.type serviceAccount needs tokens of Kubernet"
    )
