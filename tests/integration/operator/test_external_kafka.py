"""An external Apache Kafka 4.3.0, three brokers and a quorum of three controllers, managed by manifests."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.configs import ConfigChange
from sluicegate_operator.kafka_admin.views import Configs, ConfigSource
from sluicegate_operator.planning.limits.limits import IP, ip_rates
from tests.integration.differential.scripts.crowd import Crowd
from tests.support.fakes.kube.memory_kube import Json, MemoryKube
from tests.support.processes.apache_kafka import ApacheKafka
from tests.support.processes.apache_kafka_quorum import apache_kafka_quorum
from tests.support.processes.local_fleet import LocalUp, edit
from tests.support.worlds.governed import Governed, external_cluster, governing, quota_of, topic_of

pytestmark = pytest.mark.full

EXAMPLE = Path(__file__).parents[3] / "examples" / "external"
LISTENER = "EXTERNAL"
NOISY, OTHERS = "127.0.1.7", "127.0.1.99"
MANY, AT_ONCE_S = 70, 1.0
FEW = 30
"""Upper bound of accepted connections under a rate of 1/s or a count, if many connect at once.

Connections of brokers and controllers count against the limit of a broker, too.
"""
OVERRIDES = "max.connections.per.ip.overrides"


@pytest.fixture(scope="module")
def nodes() -> Iterator[Sequence[ApacheKafka]]:
    with apache_kafka_quorum((LISTENER,), {"quota.window.num": "2"}) as nodes:
        yield nodes


@pytest.fixture(autouse=True)
async def clean(nodes: Sequence[ApacheKafka]) -> None:
    """Remove all dynamic settings and quotas."""
    async with AdminClient([(node.host, node.port()) for node in nodes]) as kafka:
        handle = kafka.broker(nodes[0].host, nodes[0].port())
        set_there = dynamic_defaults(await handle.describe_broker_configs(nodes[0].node_id))
        if set_there:
            await kafka.incremental_alter_configs(None, ConfigChange({}, list(set_there)))
        await kafka.alter_quotas(dict.fromkeys(await kafka.describe_quotas(IP)))


def dynamic_defaults(configs: Configs) -> dict[str, str | None]:
    """Return dynamic defaults, without the one that Kafka itself sets when a cluster is formatted."""
    return {
        key: one.value
        for key, one in configs.items()
        if one.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG and key != "min.insync.replicas"
    }


class Outside:
    """The cluster as seen by its administrators, and the operator that manages it."""

    def __init__(self, nodes: Sequence[ApacheKafka], kafka: AdminClient, governed: Governed) -> None:
        self.nodes = nodes
        self.kafka = kafka
        self.governed = governed
        self.kube = governed.kube

    async def settle(self, *objects: Json) -> None:
        for one in objects:
            self.kube.put(one)
        await self.governed.settle()

    async def defaults(self) -> list[dict[str, str | None]]:
        """Return, for each broker, the cluster-wide defaults that differ from its own properties."""
        found = []
        for node in self.nodes:
            handle = self.kafka.broker(node.host, node.port())
            found.append(dynamic_defaults(await handle.describe_broker_configs(node.node_id)))
        return found

    async def rates(self) -> Mapping[str | None, float]:
        return await self.kafka.describe_ip_quotas()

    async def spare(self, address: str) -> None:
        """Exempt the address of the brokers and the operator from limits of all addresses."""
        await self.kafka.incremental_alter_configs(None, ConfigChange({OVERRIDES: f"{address}:900"}))
        assert not await self.kafka.alter_quotas(ip_rates({address: 900.0}))

    def let_in(self, source: str, within_s: float = AT_ONCE_S) -> int:
        """Open many connections to the first broker at once, and return how many were answered in time."""
        with Crowd((self.nodes[0].host, self.nodes[0].port(LISTENER)), source) as crowd:
            crowd.come(MANY)
            crowd.decide(within_s)
            return len(crowd.answered)

    async def await_in_sync(self, topic: str, wanted: Sequence[int]) -> None:
        """Wait until the queried broker reports these numbers of in-sync replicas: other brokers know them earlier."""
        async with asyncio.timeout(60):
            while [len(part.isr) for part in (await self.kafka.describe_topics([topic]))[topic].partitions] != wanted:
                await self.governed.settle()

    async def await_all_let_in(self, source: str) -> None:
        await self.governed.settle_until(lambda: self.let_in(source, 5.0) == MANY, timeout_s=30.0)


@asynccontextmanager
async def governed_outside(
    nodes: Sequence[ApacheKafka], *objects: Json, kube: MemoryKube | None = None, **spec: object
) -> AsyncIterator[Outside]:
    cluster = external_cluster([node.bootstrap for node in nodes[:2]], **spec)
    addresses = [(node.host, node.port()) for node in nodes]
    async with AdminClient(addresses) as kafka, governing(cluster, *objects, kube=kube) as governed:
        await governed.settle()
        yield Outside(nodes, kafka, governed)


async def test_a_limit_of_an_address_goes_to_kafka_and_back_into_the_status(nodes: Sequence[ApacheKafka]) -> None:
    async with governed_outside(nodes) as outside:
        governed = outside.governed
        assert not await outside.kafka.alter_quotas(ip_rates({OTHERS: 7.0}))
        await outside.settle(quota_of("noisy", {"ip": NOISY}, maxConnectionCreationRate=5))
        assert governed.ready() == ("True", "Governed", "all 3 brokers answer and are unfenced")
        assert governed.ready("ConnectionQuota", "noisy")[:2] == ("True", "Enforced")
        assert governed.status("ConnectionQuota", "noisy")["brokers"] == "3/3"
        assert governed.status()["limitsSet"] == [f"connection_creation_rate ip {NOISY}"]
        assert await outside.rates() == {NOISY: 5.0, OTHERS: 7.0}
        outside.kube.remove("ConnectionQuota", "noisy")
        await outside.settle()
        assert await outside.rates() == {OTHERS: 7.0}
        assert governed.status()["limitsSet"] == []


@pytest.mark.parametrize(
    ("target", "limits", "source"),
    [
        ({"broker": {}}, {"maxConnectionCreationRate": 1}, "127.0.0.1"),
        ({"broker": {}}, {"maxConnections": 30}, "127.0.0.1"),
        ({"listener": LISTENER}, {"maxConnectionCreationRate": 1}, "127.0.0.1"),
        ({"listener": LISTENER}, {"maxConnections": 5}, "127.0.0.1"),
        ({"ip": "127.0.1.11"}, {"maxConnectionCreationRate": 1}, "127.0.1.11"),
        ({"ip": "127.0.1.10"}, {"maxConnections": 5}, "127.0.1.10"),
        ({"defaultIp": {}}, {"maxConnectionCreationRate": 1}, "127.0.1.8"),
        ({"defaultIp": {}}, {"maxConnections": 5}, "127.0.1.9"),
    ],
    ids=str,
)
async def test_a_limit_holds_connections_until_it_is_lifted(
    nodes: Sequence[ApacheKafka], target: Json, limits: dict[str, int], source: str
) -> None:
    async with governed_outside(nodes) as outside:
        await outside.spare("127.0.0.1")
        await outside.settle(quota_of("limit", target, **limits))
        assert outside.governed.ready("ConnectionQuota", "limit")[:2] == ("True", "Enforced")
        assert outside.let_in(source) <= FEW
        outside.kube.remove("ConnectionQuota", "limit")
        await outside.settle()
        assert (await outside.defaults(), await outside.rates()) == (
            [{OVERRIDES: "127.0.0.1:900"}] * 3,
            {"127.0.0.1": 900.0},
        )
        await outside.await_all_let_in(source)


async def test_limits_of_other_clients_stay_beside_ours(nodes: Sequence[ApacheKafka]) -> None:
    theirs = {"max.connections.per.ip": "900", OVERRIDES: "127.0.1.50:700,127.0.1.51:800"}
    async with governed_outside(nodes) as outside:
        await outside.kafka.incremental_alter_configs(None, ConfigChange(theirs))
        await outside.settle(
            quota_of("one", {"ip": NOISY}, maxConnections=600),
            quota_of("all", {"listener": LISTENER}, maxConnections=5000, maxConnectionCreationRate=4000),
        )
        ours = {
            f"listener.name.external.max.connection{key}": value
            for key, value in (("s", "5000"), (".creation.rate", "4000"))
        }
        both = theirs | ours | {OVERRIDES: f"{theirs[OVERRIDES]},{NOISY}:600"}
        assert await outside.defaults() == [both] * 3
        assert outside.governed.ready("ConnectionQuota", "one")[0] == "True"
        # An administrator adds an override, and one of the operator's fields is removed.
        await outside.kafka.incremental_alter_configs(
            None, ConfigChange({OVERRIDES: f"{both[OVERRIDES]},127.0.1.52:1000"})
        )
        await outside.settle(quota_of("all", {"listener": LISTENER}, maxConnections=5000))
        outside.kube.remove("ConnectionQuota", "one")
        await outside.settle()
        left = theirs | {
            OVERRIDES: f"{theirs[OVERRIDES]},127.0.1.52:1000",
            "listener.name.external.max.connections": "5000",
        }
        assert await outside.defaults() == [left] * 3
        outside.kube.remove("ConnectionQuota", "all")
        await outside.settle()
        del left["listener.name.external.max.connections"]
        assert await outside.defaults() == [left] * 3
        await outside.kafka.incremental_alter_configs(None, ConfigChange({}, list(theirs)))


async def test_a_limit_whose_quota_was_deleted_during_downtime_is_lifted(nodes: Sequence[ApacheKafka]) -> None:
    quotas = (
        quota_of("a", {"ip": NOISY}, maxConnections=600, maxConnectionCreationRate=5),
        quota_of("b", {"broker": {}}, maxConnections=5000),
    )
    async with governed_outside(nodes) as outside:
        await outside.settle(*quotas)
        assert await outside.defaults() == [{OVERRIDES: f"{NOISY}:600", "max.connections": "5000"}] * 3
        kube = outside.kube
    for name in ("a", "b"):
        kube.remove("ConnectionQuota", name)
    async with governed_outside(nodes, kube=kube) as outside:
        assert await outside.defaults() == [{}] * 3
        assert NOISY not in await outside.rates()
        assert outside.governed.status()["limitsSet"] == []


async def test_what_kafka_has_no_limits_for_is_refused_with_a_sentence(nodes: Sequence[ApacheKafka]) -> None:
    async with governed_outside(nodes) as outside:
        await outside.settle(quota_of("nobody", {"listener": "NOBODY"}, maxConnections=5))
        status, _, message = outside.governed.ready("ConnectionQuota", "nobody")
        assert status == "False"
        assert "listener NOBODY is not open on these brokers" in message
        for name, spec in (
            ("range", {"target": {"cidr": "10.0.0.0/8"}}),
            ("observed", {"target": {"ip": NOISY}, "mode": "Observe"}),
        ):
            await outside.settle(quota_of(name, maxConnections=5, **spec))
            assert outside.kube.condition("ConnectionQuota", name, "Stalled")["status"] == "True"
            assert "has runtime External, and Apache Kafka" in outside.governed.ready("ConnectionQuota", name)[2]
            outside.kube.remove("ConnectionQuota", name)
        outside.kube.remove("ConnectionQuota", "nobody")
        await outside.settle()
        assert await outside.defaults() == [{}] * 3


async def test_dynamic_keys_are_set_and_taken_away_and_others_refused(nodes: Sequence[ApacheKafka]) -> None:
    config = {"log.retention.ms": "7200000", "num.partitions": "3", "log.segment.byte": "5", "num.io.threads": "many"}
    async with governed_outside(nodes, config=config) as outside:
        assert await outside.defaults() == [{"log.retention.ms": "7200000"}] * 3
        status, reason, message = outside.governed.ready()
        assert (status, reason) == ("False", "ConfigRefused")
        assert "the brokers read num.partitions only when they start" in message
        assert "the brokers do not know the key log.segment.byte" in message
        assert "Invalid value many for configuration num.io.threads" in message
        servers = [node.bootstrap for node in nodes]
        await outside.settle(external_cluster(servers, config={"log.retention.ms": "3600000"}))
        assert await outside.defaults() == [{"log.retention.ms": "3600000"}] * 3
        assert outside.governed.ready()[:2] == ("True", "Governed")
        await outside.settle(external_cluster(servers))
        assert await outside.defaults() == [{}] * 3
        assert outside.governed.status()["dynamicConfigKeys"] == []


async def test_topics_are_made_grown_and_deleted_and_outlive_the_cluster_object(nodes: Sequence[ApacheKafka]) -> None:
    orders = {"partitions": 2, "replicas": 3, "config": {"retention.ms": "60000"}, "deletionPolicy": "Delete"}
    async with governed_outside(
        nodes, topic_of("orders", **orders), topic_of("short", partitions=1, replicas=1, deletionPolicy="Delete")
    ) as outside:
        assert outside.governed.ready("Topic", "orders")[0] == "True"
        view = (await outside.kafka.describe_topics(["orders"]))["orders"]
        assert [len(partition.replicas) for partition in view.partitions] == [3, 3]
        await outside.settle(topic_of("orders", **(orders | {"partitions": 4})))
        assert len((await outside.kafka.describe_topics(["orders"]))["orders"].partitions) == 4
        configs = await outside.kafka.describe_topic_configs("orders", ["retention.ms"])
        assert configs["retention.ms"].value == "60000"
        for replicas in (1, 2):
            outside.kube.put(topic_of("orders", **(orders | {"partitions": 4, "replicas": replicas})))
            applied = f"4 partitions, {replicas} replicas"
            await outside.governed.settle_until(
                lambda wanted=applied: outside.governed.ready("Topic", "orders")[2] == wanted  # type: ignore[misc]
            )
            await outside.await_in_sync("orders", [replicas] * 4)
        outside.kube.delete_as_a_person("Topic", "short")
        await outside.governed.settle_until(lambda: outside.kube.names("Topic") == ["orders"])
        assert not (await outside.kafka.describe_topics(["short"]))["short"].exists
        outside.kube.remove("BrokerCluster", "outside")
        outside.kube.delete_as_a_person("Topic", "orders")
        await outside.settle()
        assert outside.kube.names("Topic") == []
        assert (await outside.kafka.describe_topics(["orders"]))["orders"].exists
        await outside.kafka.delete_topic("orders")


async def test_another_cluster_than_the_one_that_is_governed_is_left_alone(nodes: Sequence[ApacheKafka]) -> None:
    other = "AnotherClusterAsKafka0"
    noisy = quota_of("noisy", {"ip": NOISY}, maxConnectionCreationRate=5)
    orders = topic_of("elsewhere", partitions=1, replicas=1)
    config = {"log.retention.ms": "7200000"}
    async with governed_outside(nodes, noisy, orders, clusterId=other, config=config) as outside:
        status, reason, message = outside.governed.ready()
        assert (status, reason) == ("False", "AnotherCluster")
        assert outside.governed.kube.condition("BrokerCluster", "outside", "Stalled")["status"] == "True"
        assert f"this BrokerCluster governs {other}" in message
        assert outside.governed.ready("ConnectionQuota", "noisy")[0] == "False"
        assert NOISY not in await outside.rates()
        assert await outside.defaults() == [{}] * 3
        assert not (await outside.kafka.describe_topics(["elsewhere"]))["elsewhere"].exists
        assert outside.kube.names("BrokerRegistration") == []


async def test_registrations_follow_brokers_and_controllers_that_start_and_stop(nodes: Sequence[ApacheKafka]) -> None:
    async with governed_outside(nodes) as outside:
        governed = outside.governed

        def states() -> list[str]:
            return [
                governed.status("BrokerRegistration", name)["state"]
                for name in outside.kube.names("BrokerRegistration")
            ]

        assert outside.kube.names("BrokerRegistration") == ["outside-1", "outside-2", "outside-3"]
        assert states() == ["Online"] * 3
        assert governed.status("BrokerRegistration", "outside-2")["rack"] == "rack-2"
        assert governed.status()["brokers"] == "3/3"
        assert outside.kube.condition("BrokerCluster", "outside", "ControllersReady")["status"] == "True"
        assert len(governed.status()["voters"]) == 3
        nodes[2].kill()
        try:
            await fenced_and_unregistered(outside, states)
        finally:
            await asyncio.to_thread(nodes[2].start)
        await governed.settle_until(lambda: states() == ["Online"] * 3, timeout_s=60.0)


async def fenced_and_unregistered(outside: Outside, states: Callable[[], list[str]]) -> None:
    governed = outside.governed
    await governed.settle_until(lambda: states() == ["Online", "Online", "Fenced"])
    assert outside.kube.events("BrokerFenced")[0]["type"] == "Warning"
    assert governed.status()["brokers"] == "2/3"
    assert governed.ready()[:2] == ("False", "BrokersFenced")
    # The remaining brokers receive changes in the meantime.
    await outside.settle(quota_of("noisy", {"ip": NOISY}, maxConnectionCreationRate=5))
    assert governed.status("ConnectionQuota", "noisy")["brokers"] == "2/3"
    assert (await outside.rates())[NOISY] == 5.0
    await outside.kafka.unregister_broker(3)
    await governed.settle_until(lambda: outside.kube.names("BrokerRegistration") == ["outside-1", "outside-2"])
    await governed.settle_until(lambda: governed.ready()[:2] == ("True", "Governed"))
    assert governed.ready("ConnectionQuota", "noisy")[0] == "True"


def resources(up: LocalUp) -> list[Json]:
    found: list[Json] = up.state()["clusters"]["outside"]["resources"]
    return found


async def test_up_manages_the_example_and_lifts_only_limits_removed_from_its_files(
    nodes: Sequence[ApacheKafka], tmp_path: Path
) -> None:
    manifests = tmp_path / "external"
    shutil.copytree(EXAMPLE, manifests)
    edit(manifests / "cluster.yaml", "localhost:9092", nodes[0].bootstrap)
    async with governed_outside(nodes) as outside:
        wanted = {OVERRIDES: "192.0.2.7:50", "max.connection.creation.rate": "200", "log.retention.ms": "604800000"}
        with LocalUp(manifests, tmp_path / "data") as up:
            up.wait_until(lambda: all(row["ready"] for row in resources(up)), "everything is in force")
            assert (await outside.defaults(), await outside.rates()) == ([wanted] * 3, {"192.0.2.7": 5.0})
            up.stop()
        assert await outside.defaults() == [wanted] * 3
        edit(manifests / "quotas.yaml", r"  maxConnections: 50\n", "")
        edit(manifests / "cluster.yaml", r"  config:\n.*\n", "")
        with LocalUp(manifests, tmp_path / "data"):
            for _ in range(200):
                if await outside.defaults() == [{"max.connection.creation.rate": "200"}] * 3:
                    break
                await asyncio.sleep(0.1)
            else:
                raise AssertionError(f"not lifted: {await outside.defaults()}")
            assert await outside.rates() == {"192.0.2.7": 5.0}
        assert (await outside.kafka.describe_topics(["payments"]))["payments"].exists
        await outside.kafka.delete_topic("payments")
