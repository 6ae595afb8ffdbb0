"""The cached objects: models that share equal parts, documents without fields that no plan uses."""

from typing import Any

import pytest

from sluicegate_operator.api.models.connection_quota import ConnectionQuota
from sluicegate_operator.kube.cache.cached_object import Reader, UnreadableObject
from sluicegate_operator.kube.http.kinds import BROKER_CLUSTER, CONFIG_MAP, CONNECTION_QUOTA, POD, SERVICE
from sluicegate_operator.resources.labels import CLUSTER_LABEL

READY = {"type": "Ready", "status": "True", "reason": "Enforced", "lastTransitionTime": "2026-01-01T00:00:00Z"}
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def quota(name: str, **spec: Any) -> dict[str, Any]:
    """A quota as an item of a list: without its kind."""
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "annotations": {APPLIED: "{}", "team": "a"},
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {"clusterRef": {"name": "shop"}, "target": {"broker": {}}, "maxConnections": 10, **spec},
        "status": {"conditions": [READY]},
    }


def test_equal_parts_of_models_are_one_in_memory() -> None:
    reader = Reader()
    one, two = (reader.read(CONNECTION_QUOTA, quota(name)).value for name in ("a", "b"))
    assert isinstance(one, ConnectionQuota)
    assert isinstance(two, ConnectionQuota)
    assert one.status.conditions[0] is two.status.conditions[0]
    assert one.spec is two.spec
    assert (one.metadata is two.metadata, one.name, two.name) == (False, "a", "b")
    assert one.metadata.annotations == {"team": "a"}
    assert one == Reader().read(CONNECTION_QUOTA, quota("a")).value


def test_an_unreadable_object_still_has_its_key_and_cluster() -> None:
    cached = Reader().read(CONNECTION_QUOTA, quota("a", maxConnections="many"))
    assert (cached.key, cached.uid, cached.version, cached.cluster) == (("default", "a"), "uid-a", 7, "shop")
    assert isinstance(cached.value, UnreadableObject)
    assert "maxConnections" in cached.value.why
    assert cached.value.body["kind"] == "ConnectionQuota"
    shop = Reader().read(BROKER_CLUSTER, {"metadata": {"name": "shop", "namespace": "default"}, "spec": {}})
    assert shop.cluster == "shop"


@pytest.mark.parametrize(
    "spec", ["many", ["shop"], None, {"clusterRef": "shop"}, {"clusterRef": ["shop"]}, {"clusterRef": {"name": 7}}]
)
def test_an_object_of_another_schema_belongs_to_no_cluster_and_keeps_no_other_from_being_read(spec: Any) -> None:
    cached = Reader().read(CONNECTION_QUOTA, quota("a") | {"spec": spec})
    assert (cached.key, cached.cluster) == (("default", "a"), "")
    assert isinstance(cached.value, UnreadableObject)


def test_documents_keep_what_is_planned_by() -> None:
    meta = {"name": "p", "namespace": "default", "labels": {CLUSTER_LABEL: "shop"}, "managedFields": [{}]}
    volumes = [{"name": "data", "persistentVolumeClaim": {}}, {"name": "config", "configMap": {"name": "c"}}]
    spec = {"nodeName": "n1", "containers": [{"name": "broker"}], "volumes": volumes}
    cached = Reader().read(POD, {"metadata": meta, "spec": spec, "status": {"podIP": "10.0.0.1"}})
    assert cached.value == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {key: value for key, value in meta.items() if key != "managedFields"},
        "spec": {"nodeName": "n1", "volumes": [volumes[1]]},
        "status": {"podIP": "10.0.0.1"},
    }
    assert cached.cluster == "shop"
    landers = [{"name": "init", "args": ["s3://x"]}, {"name": "lander", "image": "a", "args": ["d", "s3://audit/shop"]}]
    cached = Reader().read(POD, {"metadata": meta, "spec": {"initContainers": landers}, "status": {}})
    assert isinstance(cached.value, dict)
    assert cached.value["spec"]["initContainers"] == [{"name": "lander", "args": ["s3://audit/shop"]}]
    partial = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": meta}
    for kind in (CONFIG_MAP, SERVICE):
        value = Reader().read(kind, partial).value
        assert isinstance(value, dict)
        assert (value["apiVersion"], value["kind"]) == (kind.api_version, kind.kind)
