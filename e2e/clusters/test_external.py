"""A BrokerCluster with runtime External: the operator manages three brokers of Apache Kafka.

It knows them from a manifest only. Limits and topics of other owners stay unchanged throughout.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pytest

from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.waiting import wait_for
from e2e.world.operator_process import OperatorProcess
from e2e.world.shop import Json, ShopInApi, condition_of
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.views import ConfigSource
from sluicegate_operator.planning.limits.limits import IP, QuotaKey, ip_rates
from tests.support.processes.apache_kafka import ApacheKafka
from tests.support.processes.apache_kafka_quorum import apache_kafka_quorum

T = TypeVar("T")

CLUSTER = "outside"
NOISY, OTHERS = "127.0.1.7", "127.0.1.99"


def document(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": "sluicegate.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def quota(name: str, target: Json, **limits: int) -> Json:
    return document("ConnectionQuota", name, {"clusterRef": {"name": CLUSTER}, "target": target, **limits})


class Outside(ShopInApi):
    """The cluster as seen by the API server, and its brokers."""

    def __init__(self, plane: ControlPlane, operator: OperatorProcess, nodes: Sequence[ApacheKafka]) -> None:
        super().__init__(plane)
        self.operator = operator
        self.nodes = nodes

    def cluster(self, **spec: Any) -> Json:
        servers = [node.bootstrap for node in self.nodes[:2]]
        return document("BrokerCluster", CLUSTER, {"runtime": "External", "bootstrapServers": servers, **spec})

    def status(self, kind: str = "brokercluster", name: str = CLUSTER) -> Json:
        status: Json = self.plane.get(kind, name).get("status", {})
        return status

    def ask(self, question: Callable[[AdminClient], Coroutine[Any, Any, T]]) -> T:
        async def asked() -> T:
            addresses = [(node.host, node.port()) for node in self.nodes]
            async with AdminClient(addresses) as admin:
                return await question(admin)

        return asyncio.run(asked())

    def kafkas_rates(self) -> Mapping[QuotaKey, float]:
        return self.ask(lambda admin: admin.describe_quotas(IP))

    def defaults(self) -> set[str]:
        """Keys of the cluster-wide dynamic configuration, as the first broker has them."""
        node = self.nodes[0]
        configs = self.ask(lambda admin: admin.broker(node.host, node.port()).describe_broker_configs(node.node_id))
        return {key for key, one in configs.items() if one.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG}

    def await_ready(self, kind: str, name: str, status: str = "True") -> Json:
        def look() -> Json:
            found = self.plane.get(kind, name)
            ready = condition_of(found, "Ready")
            assert ready.get("status") == status, ready
            assert ready["observedGeneration"] == found["metadata"]["generation"], ready
            said: Json = found["status"]
            return said

        return wait_for(f"{kind} {name} has Ready {status}", look, timeout_s=60, interval_s=0.1)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Sequence[ApacheKafka]]:
    with apache_kafka_quorum() as nodes:
        yield nodes


@pytest.fixture(scope="module")
def outside(plane: ControlPlane, operator: OperatorProcess, nodes: Sequence[ApacheKafka]) -> Iterator[Outside]:
    outside = Outside(plane, operator, nodes)
    outside.apply(outside.cluster())
    yield outside
    outside.delete("brokercluster", CLUSTER)


def test_a_limit_of_an_address_goes_to_kafka_and_back_into_the_status(outside: Outside) -> None:
    outside.ask(lambda admin: admin.alter_quotas(ip_rates({OTHERS: 7.0})))
    outside.apply(quota("noisy", {"ip": NOISY}, maxConnectionCreationRate=5))
    status = outside.await_ready("connectionquota", "noisy")
    assert status["brokers"] == "3/3"
    assert outside.kafkas_rates() == ip_rates({NOISY: 5.0, OTHERS: 7.0})
    outside.delete("connectionquota", "noisy")
    wait_for(
        "the limit is lifted", lambda: outside.kafkas_rates() == ip_rates({OTHERS: 7.0}), timeout_s=30, interval_s=0.1
    )


def test_brokers_and_controllers_are_seen_in_kubectl(outside: Outside) -> None:
    status = outside.await_ready("brokercluster", CLUSTER)
    assert (status["brokers"], len(status["voters"])) == ("3/3", 3)
    names = [f"{CLUSTER}-{node.node_id}" for node in outside.nodes]

    def look() -> bool:
        found = [outside.plane.get("brokerregistration", name) for name in names]
        return all(one["status"]["state"] == "Online" for one in found) and all(
            one["metadata"]["ownerReferences"][0]["name"] == CLUSTER for one in found
        )

    wait_for("all are Online", look, timeout_s=30, interval_s=0.2)


def test_a_limit_whose_quota_was_deleted_during_downtime_is_lifted_and_topics_stay(outside: Outside) -> None:
    topic = document("Topic", "outside-orders", {"clusterRef": {"name": CLUSTER}, "partitions": 2, "replicas": 3})
    outside.apply(quota("away", {"listener": "EXTERNAL"}, maxConnections=500), topic)
    outside.await_ready("connectionquota", "away")
    outside.await_ready("topic", "outside-orders")
    key = "listener.name.external.max.connections"
    assert outside.status()["limitsSet"] == [key]
    assert key in outside.defaults()
    outside.operator.kill()
    try:
        outside.delete("connectionquota", "away")
        outside.delete("topic", "outside-orders")
    finally:
        outside.operator.start()
    wait_for("it is lifted", lambda: key not in outside.defaults(), timeout_s=60, interval_s=0.2)
    assert outside.ask(lambda admin: admin.describe_topics(["outside-orders"]))["outside-orders"].exists
