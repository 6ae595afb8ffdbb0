"""A cluster is deleted and created again by name: its volumes are kept, reported, adopted on request, or deleted."""

import pytest

from e2e.cluster.waiting import wait_for
from e2e.world.shop import READY_TIMEOUT_S, Json, Shop

NAME = "again"
CLAIMS = ("pvc", "-l", f"sluicegate.dev/cluster={NAME}")
NODES = ("statefulsets,pods", "-l", f"sluicegate.dev/cluster={NAME}")


def a_cluster(**spec: object) -> Json:
    return {
        "apiVersion": "sluicegate.dev/v1alpha1",
        "kind": "BrokerCluster",
        "metadata": {"name": NAME},
        "spec": {"brokers": {"replicas": 1, "storage": {"size": "1Gi"}}, **spec},
    }


def a_topic() -> Json:
    spec = {"clusterRef": {"name": NAME}, "topicName": "kept", "partitions": 1}
    return {
        "apiVersion": "sluicegate.dev/v1alpha1",
        "kind": "Topic",
        "metadata": {"name": "again-kept"},
        "spec": spec,
    }


def claims(shop: Shop) -> dict[str, str]:
    """Claims with the ID of the cluster whose data they have."""
    listed = shop.plane.get(*CLAIMS)["items"]
    return {
        claim["metadata"]["name"]: claim["metadata"].get("annotations", {}).get("sluicegate.dev/cluster-id", "")
        for claim in listed
    }


def ready(shop: Shop) -> Json:
    shop.await_condition("brokercluster", NAME, "Ready", "True", timeout_s=READY_TIMEOUT_S)
    found: Json = shop.plane.get("brokercluster", NAME)
    return found


def delete(shop: Shop) -> None:
    shop.delete("brokercluster", NAME)
    wait_for("its nodes are gone", lambda: not shop.plane.get(*NODES)["items"], timeout_s=READY_TIMEOUT_S)


@pytest.fixture
def shop(standing_shop: Shop) -> Shop:
    return standing_shop


def test_volumes_are_kept_after_their_cluster_unless_its_spec_deletes_them(shop: Shop) -> None:
    shop.apply(a_cluster(), a_topic())
    first_id = ready(shop)["status"]["clusterId"]
    shop.await_condition("topic", "again-kept", "Ready", "True")
    topic_id = shop.plane.get("topic", "again-kept")["status"]["topicId"]
    names = [f"data-{NAME}-brokers-0", f"data-{NAME}-controllers-0"]
    wait_for("claims are marked", lambda: claims(shop) == dict.fromkeys(names, first_id))
    shop.delete("topic", "again-kept")
    delete(shop)

    shop.apply(a_cluster())
    stalled = shop.await_condition("brokercluster", NAME, "Stalled", "True")
    assert stalled["reason"] == "ClaimsTaken"
    assert f"set spec.clusterId to {first_id}" in stalled["message"]
    assert shop.plane.get(*NODES)["items"] == [], "nothing is made that would crash"
    assert "ClaimsTaken" in {event["reason"] for event in shop.events(NAME)}

    shop.apply(a_cluster(clusterId=first_id), a_topic())
    assert ready(shop)["status"]["clusterId"] == first_id
    shop.await_condition("topic", "again-kept", "Ready", "True")
    assert shop.plane.get("topic", "again-kept")["status"]["topicId"] == topic_id, "it is the topic that was there"

    # Request it at the last moment: no StatefulSet has the change when the cluster is deleted.
    shop.delete("topic", "again-kept")
    shop.apply(a_cluster(clusterId=first_id, storage={"deleteClaims": True}))
    delete(shop)
    wait_for("the claims are gone", lambda: claims(shop) == {}, timeout_s=READY_TIMEOUT_S)
