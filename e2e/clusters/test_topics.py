"""Topics with deletionPolicy Delete: no deletion is lost, and no deleted Topic waits for ever."""

from functools import partial

from e2e.cluster.waiting import wait_for
from e2e.world.shop import BROKERS, CLUSTER, Json, Shop, condition_of
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
    """A user set its finalizer: the operator does not put one on a Topic without a cluster."""
    orphan = {**DOCUMENT, "spec": {**DOCUMENT["spec"], "clusterRef": {"name": "gone"}}}
    shop.apply(orphan | {"metadata": {"name": "orphan", "finalizers": ["sluicegate.dev/topic"]}})
    shop.delete("topic", "orphan", "--timeout=60s")
    assert not topics(shop, "orphan")


def test_replicas_are_raised_and_lowered_and_too_many_are_a_sentence(shop: Shop) -> None:
    shop.apply(DOCUMENT)
    shop.await_condition("topic", TOPIC, "Ready", "True")
    try:
        for replicas in (BROKERS, 2):
            shop.apply(DOCUMENT | {"spec": DOCUMENT["spec"] | {"replicas": replicas}})
            applied = f"1 partitions, {replicas} replicas"
            wait_for(applied, partial(ready_says, shop, applied), timeout_s=60, interval_s=0.2)
            assert shop.plane.get("topic", TOPIC)["status"]["replicas"] == replicas
        shop.apply(DOCUMENT | {"spec": DOCUMENT["spec"] | {"replicas": BROKERS + 1}})
        shop.await_condition("topic", TOPIC, "Stalled", "True")
        assert f"the cluster has {BROKERS} brokers" in condition_of(shop.plane.get("topic", TOPIC), "Ready")["message"]
    finally:
        shop.delete("topic", TOPIC)


def ready_says(shop: Shop, message: str) -> bool:
    return bool(condition_of(shop.plane.get("topic", TOPIC), "Ready")["message"] == message)


def topics(shop: Shop, name: str) -> list[str]:
    return [item["metadata"]["name"] for item in shop.plane.get("topics")["items"] if item["metadata"]["name"] == name]
