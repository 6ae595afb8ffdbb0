"""Apache Kafka 4.3.0 that others run, three brokers and a quorum of three controllers, governed by manifests."""

from collections.abc import Iterator, Sequence

import pytest

from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.planning.limits import IP, ip_rates
from tests.support.apache_kafka import ApacheKafka
from tests.support.apache_kafka_quorum import apache_kafka_quorum
from tests.support.governed import external_cluster, governing, quota_of

NOISY, OTHERS = "127.0.1.7", "127.0.1.99"


@pytest.fixture(scope="module")
def nodes() -> Iterator[Sequence[ApacheKafka]]:
    with apache_kafka_quorum() as nodes:
        yield nodes


@pytest.fixture
def servers(nodes: Sequence[ApacheKafka]) -> list[str]:
    return [node.bootstrap for node in nodes[:2]]


def admin(nodes: Sequence[ApacheKafka]) -> AdminClient:
    return AdminClient([(node.host, node.port()) for node in nodes])


async def test_a_limit_of_an_address_goes_to_kafka_and_back_into_the_status(
    nodes: Sequence[ApacheKafka], servers: list[str]
) -> None:
    async with admin(nodes) as kafka, governing(external_cluster(servers)) as outside:
        assert not await kafka.alter_quotas(ip_rates({OTHERS: 7.0}))
        outside.kube.put(quota_of("noisy", {"ip": NOISY}, maxConnectionCreationRate=5))
        await outside.settle()
        assert outside.ready() == ("True", "Governed", "all 3 brokers answer and are unfenced")
        assert outside.ready("ConnectionQuota", "noisy")[:2] == ("True", "Enforced")
        assert outside.status("ConnectionQuota", "noisy")["brokers"] == "3/3"
        assert outside.status()["limitsSet"] == [f"connection_creation_rate ip {NOISY}"]
        assert await kafka.describe_quotas(IP) == ip_rates({NOISY: 5.0, OTHERS: 7.0})
        outside.kube.remove("ConnectionQuota", "noisy")
        await outside.settle()
        assert await kafka.describe_quotas(IP) == ip_rates({OTHERS: 7.0})
        assert outside.status()["limitsSet"] == []
