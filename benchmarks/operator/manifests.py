"""Manifests of the measured clusters, quotas and topics."""

from collections.abc import Sequence

from tests.support.processes.process_kubelet.api import Json

TOPIC_PARTITIONS = 3


def cluster(name: str, brokers: int) -> Json:
    return _document("BrokerCluster", name, {"brokers": {"replicas": brokers, "storage": {"size": "1Gi"}}})


def quota(number: int, clusters: Sequence[str]) -> Json:
    spec = {
        "clusterRef": {"name": clusters[number % len(clusters)]},
        "target": {"ip": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"},
        "maxConnectionCreationRate": 5,
    }
    return _document("ConnectionQuota", f"q{number}", spec)


def topic(number: int, clusters: Sequence[str], replicas: int) -> Json:
    spec = {
        "clusterRef": {"name": clusters[number % len(clusters)]},
        "partitions": TOPIC_PARTITIONS,
        "replicas": min(replicas, 3),
    }
    return _document("Topic", f"t{number}", spec)


def _document(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": "sluicegate.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
