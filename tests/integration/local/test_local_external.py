"""`sluicegate up` with an external Apache Kafka: it starts no broker, and applies the manifests there."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.planning.limits.limits import IP, ip_rates
from tests.support.processes.apache_kafka import ApacheKafka
from tests.support.processes.local_fleet import LocalUp, edit

pytestmark = pytest.mark.full

LIFTED_WITHIN_S = 60.0
ALL_READY = dict.fromkeys(("BrokerCluster", "Topic", "ConnectionQuota"), True)
NOISY, OTHERS, ENDED = "127.0.1.7", "127.0.1.99", "127.0.1.50"
MANIFESTS = """
apiVersion: sluicegate.dev/v1alpha1
kind: BrokerCluster
metadata: {{name: old}}
spec: {{runtime: External, bootstrapServers: ["{server}"]}}
---
apiVersion: sluicegate.dev/v1alpha1
kind: Topic
metadata: {{name: parcels}}
spec: {{clusterRef: {{name: old}}, partitions: 3}}
"""
QUOTA = f"""
apiVersion: sluicegate.dev/v1alpha1
kind: ConnectionQuota
metadata: {{name: noisy}}
spec: {{clusterRef: {{name: old}}, target: {{ip: {NOISY}}}, maxConnectionCreationRate: 7}}
"""
REFUSED = f"""
apiVersion: sluicegate.dev/v1alpha1
kind: BrokerListener
metadata: {{name: old-external}}
spec: {{clusterRef: {{name: old}}, name: EXTERNAL, port: 9094, protocol: PLAINTEXT}}
---
apiVersion: sluicegate.dev/v1alpha1
kind: ConnectionQuota
metadata: {{name: ended}}
spec: {{clusterRef: {{name: old}}, target: {{ip: {ENDED}}}, maxConnections: 7, expiresAt: "2020-01-31T18:00:00Z"}}
"""


@pytest.fixture
def kafka() -> Iterator[ApacheKafka]:
    with ApacheKafka() as running:
        yield running


def rows(up: LocalUp) -> dict[str, bool]:
    return {row["kind"]: row["ready"] for row in up.state()["clusters"]["old"]["resources"]}


def says(up: LocalUp, kind: str) -> str:
    return "".join(row["message"] for row in up.state()["clusters"]["old"]["resources"] if row["kind"] == kind)


async def test_limits_and_topics_of_files_hold_on_brokers_of_others(kafka: ApacheKafka, tmp_path: Path) -> None:
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    (manifests / "cluster.yaml").write_text(MANIFESTS.format(server=kafka.bootstrap))
    (manifests / "quota.yaml").write_text(QUOTA)
    async with AdminClient([(kafka.host, kafka.port())]) as admin:
        assert not await admin.alter_quotas(ip_rates({OTHERS: 3.0}))
        with LocalUp(manifests, tmp_path / "data") as up:
            up.wait_until(lambda: rows(up) == ALL_READY, "all")
            assert await admin.describe_quotas(IP) == ip_rates({NOISY: 7.0, OTHERS: 3.0})
            assert len((await admin.describe_topics(["parcels"]))["parcels"].partitions) == 3
            edit(manifests / "quota.yaml", "Rate: 7", "Rate: 9")
            up.wait_for_line("enforced on 1/1 brokers")
            assert await admin.describe_quotas(IP) == ip_rates({NOISY: 9.0, OTHERS: 3.0})
            assert up.state()["clusters"]["old"]["nodes"] == []
            # `groups`, `brokers` and other commands use the brokers that `up` found and published.
            assert up.state()["clusters"]["old"]["external"] == [kafka.bootstrap]
            up.wait_for_line(f"brokers 1 at {kafka.bootstrap}")
            (manifests / "more.yaml").write_text(REFUSED)
            up.wait_until(lambda: "bundled BrokerCluster old does not exist" in says(up, "BrokerListener"), "refused")
            up.wait_until(lambda: "the limit expired at expiresAt" in says(up, "ConnectionQuota"), "expired")
            assert f"ip {ENDED} no limit ->" not in up.output()
            (manifests / "more.yaml").unlink()
            # A removed cluster keeps its limits, and `up` does not report that they are lifted.
            (manifests / "cluster.yaml").rename(tmp_path / "cluster.yaml")
            up.wait_until(lambda: "BrokerCluster old does not exist" in says(up, "ConnectionQuota"), "gone")
            assert await admin.describe_quotas(IP) == ip_rates({NOISY: 9.0, OTHERS: 3.0})
            assert f"ip {NOISY} 9/s -> no limit" not in up.output()
            (tmp_path / "cluster.yaml").rename(manifests / "cluster.yaml")
            # `up` remembers a limit when it has set it: until the quota is ready, it may not have done so.
            up.wait_until(lambda: rows(up) == ALL_READY, "back")
        # The quota was removed while `up` did not run: `up` remembers what it has set.
        (manifests / "quota.yaml").unlink()
        with LocalUp(manifests, tmp_path / "data") as up:
            up.wait_until(lambda: rows(up) == dict.fromkeys(("BrokerCluster", "Topic"), True), "all but the quota")
            async with asyncio.timeout(LIFTED_WITHIN_S):
                while await admin.describe_quotas(IP) != ip_rates({OTHERS: 3.0}):  # noqa: ASYNC110 - of another process
                    await asyncio.sleep(0.1)
