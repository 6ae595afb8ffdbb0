"""Volumes grow while brokers run.

Without a storage driver, the test binds claims and resizes them as a driver would.
"""

import json

import pytest

from e2e.cluster.control_plane import KubectlError
from e2e.cluster.waiting import wait_for
from e2e.world.shop import READY_TIMEOUT_S, Json, Shop

NAME = "roomy"
CLAIMS = ("pvc", "-l", f"sluicegate.dev/cluster={NAME}")


def storage_class(name: str, *, grows: bool) -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "example.org/none",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": grows,
    }


def a_cluster(size: str, replicas: int, class_name: str) -> Json:
    storage = {"size": size, "storageClassName": class_name}
    return {
        "apiVersion": "sluicegate.dev/v1alpha1",
        "kind": "BrokerCluster",
        "metadata": {"name": NAME},
        "spec": {
            "brokers": {"replicas": replicas, "storage": storage},
            "controllers": {"storage": {"size": "1Gi", "storageClassName": class_name}},
            "storage": {"deleteClaims": True},
        },
    }


def claim(ordinal: int) -> str:
    return f"data-{NAME}-brokers-{ordinal}"


def asked(shop: Shop) -> dict[str, str]:
    listed = shop.plane.get(*CLAIMS)["items"]
    return {one["metadata"]["name"]: one["spec"]["resources"]["requests"]["storage"] for one in listed}


def driver_says(shop: Shop, name: str, status: Json) -> None:
    shop.plane.kubectl(
        "patch", "pvc", name, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status})
    )


def a_volume(found: Json) -> Json:
    claimed = found["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": claimed["name"], "labels": {"of": NAME}},
        "spec": {
            "capacity": {"storage": found["spec"]["resources"]["requests"]["storage"]},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": found["spec"]["storageClassName"],
            "claimRef": {"namespace": claimed["namespace"], "name": claimed["name"]},
            "hostPath": {"path": f"/volumes/{claimed['name']}"},
        },
    }


def bind(shop: Shop) -> None:
    pending = [found for found in shop.plane.get(*CLAIMS)["items"] if found["status"].get("phase") != "Bound"]
    shop.apply(*map(a_volume, pending))

    def bound() -> bool:
        return all(found["status"].get("phase") == "Bound" for found in shop.plane.get(*CLAIMS)["items"])

    wait_for("all claims are bound", bound)


def volumes(shop: Shop) -> Json:
    found: Json = shop.plane.get("brokercluster", NAME)["status"].get("volumes", {})
    return found


def ready(shop: Shop) -> None:
    shop.await_condition("brokercluster", NAME, "Ready", "True", timeout_s=READY_TIMEOUT_S)


@pytest.fixture
def shop(standing_shop: Shop) -> Shop:
    shop = standing_shop
    shop.apply(storage_class("grows", grows=True), storage_class("rigid", grows=False))
    return shop


def gone(shop: Shop) -> None:
    shop.delete("brokercluster", NAME)
    wait_for("its claims are gone", lambda: not asked(shop), timeout_s=READY_TIMEOUT_S)
    shop.plane.kubectl("delete", "pv", "-l", f"of={NAME}")


def test_volumes_grow_without_a_restart_and_new_brokers_have_large_ones(shop: Shop) -> None:
    shop.apply(a_cluster("1Gi", 1, "grows"))
    ready(shop)
    bind(shop)
    before = shop.broker_pods(NAME)

    shop.apply(a_cluster("2Gi", 1, "grows"))
    wait_for("more is asked for", lambda: asked(shop)[claim(0)] == "2Gi")
    under_way = {"type": "Resizing", "status": "True", "message": "as the driver says"}
    driver_says(shop, claim(0), {"conditions": [under_way]})
    said = f"{claim(0)} has 1Gi of 2Gi: Resizing as the driver says"
    wait_for("the status says how far it is", lambda: volumes(shop).get("growing") == [said])
    working = shop.await_condition("brokercluster", NAME, "Reconciling", "True")
    assert working["reason"] == "VolumesGrowing"
    driver_says(shop, claim(0), {"conditions": None, "capacity": {"storage": "2Gi"}})
    ready(shop)
    assert volumes(shop) == {"brokers": "2Gi", "controllers": "1Gi", "growing": []}

    shop.apply(a_cluster("2Gi", 2, "grows"))
    wait_for("the next broker has a claim", lambda: asked(shop).get(claim(1)) == "2Gi")
    bind(shop)
    ready(shop)
    pods = shop.broker_pods(NAME)
    assert [pod.name for pod in pods] == [f"{NAME}-brokers-0", f"{NAME}-brokers-1"]
    assert pods[0] == before[0], "nothing was restarted"
    owners = shop.plane.get("pvc", claim(1))["metadata"]["ownerReferences"]
    assert "BrokerCluster" in {owner["kind"] for owner in owners}
    with pytest.raises(KubectlError, match="cannot be less than the size that was requested for the volumes"):
        shop.apply(a_cluster("1Gi", 2, "grows"))
    gone(shop)


def test_a_class_that_refuses_is_named_and_the_size_can_be_taken_back(shop: Shop) -> None:
    shop.apply(a_cluster("1Gi", 1, "rigid"))
    ready(shop)
    bind(shop)
    wait_for("what volumes hold is known", lambda: volumes(shop).get("brokers") == "1Gi")

    shop.apply(a_cluster("2Gi", 1, "rigid"))
    stalled = shop.await_condition("brokercluster", NAME, "Stalled", "True")
    assert stalled["reason"] == "VolumesRefused"
    assert f"{claim(0)} stays at 1Gi" in stalled["message"]
    assert "StorageClass rigid" in stalled["message"]
    assert "VolumesRefused" in {event["reason"] for event in shop.events(NAME)}
    assert asked(shop)[claim(0)] == "1Gi"

    shop.apply(a_cluster("1Gi", 1, "rigid"))
    ready(shop)
    gone(shop)
