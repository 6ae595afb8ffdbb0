"""Topics with deletionPolicy Delete: no deletion is lost, and nothing that is deleted waits for ever."""

from e2e.cluster.waiting import wait_for
from e2e.shop import CLUSTER, Json, Shop
from sluicegate_operator.kafka_admin.client import BrokerHandle

TOPIC = "short-lived"
DOCUMENT: Json = {
    "apiVersion": "sluicegate.dev/v1alpha1",
    "kind": "Topic",
    "metadata": {"name": TOPIC},
    "spec": {"clusterRef": {"name": CLUSTER}, "partitions": 1, "replicas": 1, "deletionPolicy": "Delete"},
}


def in_kafka(shop: Shop, name: str) -> bool:
    async def exists(broker: BrokerHandle) -> bool:
        return (await broker.describe_topics([name]))[name].exists

    return shop.admin(shop.pod(0), exists)


def test_a_topic_that_is_deleted_while_the_operator_is_away_goes_once_it_is_back(shop: Shop) -> None:
    shop.apply(DOCUMENT)
    shop.await_condition("topic", TOPIC, "Ready", "True")
    assert in_kafka(shop, TOPIC)
    shop.operator.kill()
    try:
        shop.delete("topic", TOPIC, "--wait=false")
        assert in_kafka(shop, TOPIC)
    finally:
        shop.operator.start()
    wait_for("the topic is gone from Kafka", lambda: not in_kafka(shop, TOPIC), timeout_s=60, interval_s=0.2)
    wait_for("the Topic is gone", lambda: not topics(shop, TOPIC), timeout_s=30, interval_s=0.2)


def test_a_topic_of_a_cluster_that_is_gone_does_not_wait(shop: Shop) -> None:
    """It got its finalizer of a person: the operator does not put it on a Topic that has no cluster."""
    orphan = {**DOCUMENT, "spec": {**DOCUMENT["spec"], "clusterRef": {"name": "gone"}}}
    shop.apply(orphan | {"metadata": {"name": "orphan", "finalizers": ["sluicegate.dev/topic"]}})
    shop.delete("topic", "orphan", "--timeout=60s")
    assert not topics(shop, "orphan")


def topics(shop: Shop, name: str) -> list[str]:
    return [item["metadata"]["name"] for item in shop.plane.get("topics")["items"] if item["metadata"]["name"] == name]
