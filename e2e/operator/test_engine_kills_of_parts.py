"""The operator is killed at each step of features other than limits and topics.

These are brokers that come and go, growing volumes, Services of listeners, racks, observers and their code, runs of
AuditPipelines, and external brokers.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pytest

from e2e.world.engine_kills import Killed, Lives, all_ready, one_after_another
from e2e.world.engine_world import BROKERS, CLUSTER, OUTSIDE, EngineWorld, cluster_document, manifest, of_cluster
from sluicegate_operator.planning.layout.cluster_layout import INTERNAL_PORT
from sluicegate_operator.planning.observers.observers import NAMES
from sluicegate_operator.resources.labels import RACK
from tests.support.manifests.pipeline_manifests import SPARK
from tests.support.obtain.crds.spark_operator_crds import apache_crd
from tests.support.processes.process_kubelet.api import Access, Json
from tests.support.processes.process_kubelet.node import ZONE_LABEL
from tests.support.worlds.played_nodes import PlayedNodes
from tests.support.worlds.played_volumes import PlayedVolumes
from tests.support.worlds.served_cluster import RATE

NEVER_SOON = "0 0 1 1 *"
LONG_AGO = "2020-01-01T00:00:00Z"
ADDRESS, BRIEFLY, OTHERS = "10.0.0.1", "10.0.0.2", "10.0.0.99"
OVERRIDES, RETENTION = "max.connections.per.ip.overrides", "log.retention.ms"


@pytest.fixture
def equipped(world: EngineWorld) -> Iterator[EngineWorld]:
    """A world with nodes in three zones, growing volumes, and the kind that Apache's Spark operator runs."""
    access = Access(world.plane.url, str(world.plane.certificate), world.plane.token)
    zones = {f"{world.namespace}-{number}": f"zone-{number}" for number in range(BROKERS)}
    world.plane.kubectl("apply", "--server-side", "-f", str(apache_crd()))
    with PlayedNodes(access, zones), PlayedVolumes(access, world.namespace):
        world.served.nodes = tuple(zones)
        yield world


def a_cluster(world: EngineWorld, replicas: int = BROKERS, size: str = "1Gi") -> Json:
    storage = {"size": size, "storageClassName": world.namespace}
    return cluster_document(
        brokers={"replicas": replicas, "storage": storage, "rack": {"topologyKey": ZONE_LABEL}},
        controllers={"storage": {"size": "1Gi", "storageClassName": world.namespace}},
        observers={"allowConfigMapCode": True},
    )


def listener(**spec: object) -> Json:
    return of_cluster("BrokerListener", "external", name="EXTERNAL", port=9094, protocol="PLAINTEXT", **spec)


def observer(level: str) -> Json:
    source = {"configMap": {"name": "code"}}
    return of_cluster("ObserverPlugin", "noting", **{"class": "noting.Noting"}, source=source, config={"level": level})


def code() -> Json:
    text = "class Noting:\n    pass\n"
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": {"noting.py": text}}


def pipeline(name: str, schedule: str, **more: object) -> Json:
    places = {"source": {"claimName": "segments"}, "results": {"claimName": f"results-of-{name}"}}
    return of_cluster("AuditPipeline", name, schedule=schedule, **places, **more)


def told(world: EngineWorld, key: str, cluster: str = CLUSTER) -> list[float | str | None]:
    """Values of the key that the brokers received as the default of all brokers."""
    values = [value for whose, name, value in world.served.clusters[cluster].configs_told if (whose, name) == ("", key)]
    return one_after_another(values)


def test_parts_of_a_cluster_are_added_changed_and_removed_by_an_operator_killed_at_each_step(
    equipped: EngineWorld,
) -> None:
    world = equipped
    with ExitStack() as stack:
        pods, claims, services, sets, runs = (
            stack.enter_context(Lives(world, plural, api))
            for plural, api in (
                ("pods", "api/v1"),
                ("persistentvolumeclaims", "api/v1"),
                ("services", "api/v1"),
                ("statefulsets", "apis/apps/v1"),
                ("sparkapplications", "apis/spark.apache.org/v1"),
            )
        )
        world.apply(a_cluster(world), of_cluster("Topic", "orders", partitions=3, replicas=3), code())
        killed = stack.enter_context(Killed(world))
        killed.settle()
        assert len(racks(world)) == BROKERS

        grown = {f"data-{CLUSTER}-brokers-{number}": "2Gi" for number in range(BROKERS + 1)}
        # Pods are processes and do not wait for their claims, so the newest claim may be bound after its pod is ready.
        have_come = killed.until(
            lambda: all_ready(world) and len(racks(world)) == BROKERS + 1 and sizes(world) == grown,
            lambda: come(world),
        )
        came = alike(have_come)
        assert {"POST persistentvolumeclaims/data-played-brokers-N", "POST cronjobs/daily"} <= came
        assert {"PATCH statefulsets/played-brokers", "POST services/external-N"} <= came
        assert {
            f"PATCH pods/played-brokers-N/status with {RACK}",
            "PATCH persistentvolumeclaims/data-played-brokers-N",
        } <= came
        assert "IncrementalAlterConfigs" in came
        assert [step for step in came if step.startswith("POST sparkapplications/")]
        assert told(world, NAMES) == ["noting"]
        assert len(runs.uids) == 1

        changed = killed.until(lambda: all_ready(world), lambda: change(world))
        assert {"PATCH cronjobs/daily", "IncrementalAlterConfigs"} <= set(changed)

        gone = killed.until(lambda: is_gone(world), lambda: go(world))
        assert {"UnregisterBroker", "PATCH statefulsets/played-brokers", "IncrementalAlterConfigs"} <= set(gone)
        assert {"DELETE cronjobs/daily", *(f"DELETE services/external-{n}" for n in range(BROKERS + 1))} <= set(gone)
        assert told(world, NAMES) == ["noting", None]
        assert told(world, "observer.noting.level") == ["1", "2", None]
        assert len(runs.uids) == 1, "its time was seen to, and no other came"
        assert pods.deleted == {f"{CLUSTER}-brokers-{BROKERS}"}
        for lives in (pods, claims, services, sets, runs):
            assert set(lives.lives.values()) == {1}, f"nothing was made anew: {lives.lives}"
        assert claims.deleted == set()
        assert not {"CreateTopics", "DeleteTopics"} & {*came, *changed, *gone}
        assert set(racks(world)) == {f"{CLUSTER}-brokers-{number}" for number in range(BROKERS)}


def alike(steps: Sequence[str]) -> set[str]:
    """Give numbered steps one name, as in runs that kill at each only once."""
    return {re.sub(r"-\d+(?=/|$)", "-N", step) for step in steps}


def come(world: EngineWorld) -> None:
    spark = pipeline("weekly", NEVER_SOON, **SPARK)
    world.apply(
        a_cluster(world, BROKERS + 1, "2Gi"),
        listener(exposure="NodePort"),
        observer("1"),
        pipeline("daily", NEVER_SOON),
        spark,
    )
    # Pretend that a time of its schedule has passed since.
    world.patch("auditpipeline", "weekly", {"status": {"lastScheduleTime": LONG_AGO}}, "--subresource=status")


def change(world: EngineWorld) -> None:
    world.apply(
        listener(exposure="NodePort", advertisedHost="kafka.example.org"),
        observer("2"),
        pipeline("daily", "0 0 2 1 *"),
    )


def go(world: EngineWorld) -> None:
    world.apply(a_cluster(world, BROKERS, "2Gi"), listener(), pipeline("daily", "0 0 2 1 *", **SPARK))
    world.delete("observerplugin", "noting", "--wait=false")


def is_gone(world: EngineWorld) -> bool:
    services = [item["metadata"]["name"] for item in world.get("services")["items"]]
    return (
        all_ready(world)
        and len(world.pods()) == BROKERS + 1
        and NAMES not in world.cluster.defaults
        and not world.get("cronjobs")["items"]
        and not [name for name in services if name.startswith("external-")]
        and sorted(world.cluster.epochs) == list(range(BROKERS))
    )


def racks(world: EngineWorld) -> dict[str, str]:
    """Racks of pods that have one."""
    found = {pod["metadata"]["name"]: pod["metadata"].get("annotations") or {} for pod in world.get("pods")["items"]}
    return {name: annotations[RACK] for name, annotations in found.items() if RACK in annotations}


def sizes(world: EngineWorld) -> dict[str, str | None]:
    """Sizes of the brokers' claims; None for a claim that is not bound."""
    items = world.get("pvc", "-l", f"sluicegate.dev/cluster={CLUSTER}")["items"]
    brokers = [item for item in items if "-brokers-" in item["metadata"]["name"]]
    return {item["metadata"]["name"]: item["status"].get("capacity", {}).get("storage") for item in brokers}


def outside(world: EngineWorld, retention: str | None) -> Json:
    servers = [f"{world.served.host(OUTSIDE, number)}:{INTERNAL_PORT}" for number in range(2)]
    config = {} if retention is None else {"config": {RETENTION: retention}}
    return manifest("BrokerCluster", OUTSIDE, {"runtime": "External", "bootstrapServers": servers, **config})


def of_outside(kind: str, name: str, /, **spec: object) -> Json:
    return manifest(kind, name, {"clusterRef": {"name": OUTSIDE}, **spec})


def limits(rate: int, count: int) -> tuple[Json, Json]:
    address = {"ip": ADDRESS}
    return (
        of_outside("ConnectionQuota", "address", target=address, maxConnectionCreationRate=rate, maxConnections=count),
        of_outside("ConnectionQuota", "all", target={"broker": {}}, maxConnections=2 * count),
    )


def test_an_operator_killed_at_each_step_leaves_limits_of_others_on_external_brokers_unchanged(
    world: EngineWorld,
) -> None:
    cluster = world.served.clusters[OUTSIDE]
    theirs = {OVERRIDES: f"{OTHERS}:3", "max.connection.creation.rate": "1000"}
    cluster.built_in[RETENTION] = "604800000"
    cluster.defaults |= theirs
    cluster.quotas[("ip", OTHERS),] = {RATE: 7.0}
    world.served.start(OUTSIDE)
    topic = of_outside("Topic", "orders", partitions=3, replicas=3)
    with Killed(world) as killed:
        made = killed.until(
            lambda: all_ready(world), lambda: world.apply(outside(world, "100000"), *limits(5, 50), topic)
        )
        assert {"AlterClientQuotas", "IncrementalAlterConfigs", "CreateTopics"} <= set(made)
        remembered = f"PATCH brokerclusters/{OUTSIDE}/status of limits"
        assert made.index(remembered) < made.index("AlterClientQuotas")
        status = world.get("brokercluster", OUTSIDE)["status"]
        ours = [f"connection_creation_rate ip {ADDRESS}", "max.connections", f"{OVERRIDES} {ADDRESS}"]
        assert status["limitsSet"] == ours
        assert status["dynamicConfigKeys"] == [RETENTION]

        changed = killed.until(lambda: all_ready(world), lambda: world.apply(outside(world, "200000"), *limits(6, 60)))
        assert {"AlterClientQuotas", "IncrementalAlterConfigs"} <= set(changed)

        def goes(step: str) -> None:
            if step == "IncrementalAlterConfigs" and BRIEFLY in cluster.defaults[OVERRIDES]:
                world.delete("connectionquota", "brief", "--ignore-not-found")

        brief = of_outside(
            "ConnectionQuota", "brief", target={"ip": BRIEFLY}, maxConnectionCreationRate=9, maxConnections=9
        )
        lifted = killed.until(
            lambda: all_ready(world) and world.get("brokercluster", OUTSIDE)["status"]["limitsSet"] == ours,
            lambda: world.apply(brief),
            goes,
        )
        assert "IncrementalAlterConfigs" in lifted, "it was set, and its quota went before anybody had learned of it"

        def is_gone() -> bool:
            status = world.get("brokercluster", OUTSIDE)["status"]
            return all_ready(world) and not status.get("limitsSet") and not status.get("dynamicConfigKeys")

        gone = killed.until(is_gone, lambda: leave(world))
        assert {"AlterClientQuotas", "IncrementalAlterConfigs", remembered} <= set(gone)
    rates = [(dict(entity)["ip"], value) for entity, _, value in cluster.told]
    assert one_after_another([value for address, value in rates if address == ADDRESS]) == [5.0, 6.0, None]
    assert OTHERS not in {address for address, _ in rates}
    assert told(world, "max.connections", OUTSIDE) == ["100", "120", None]
    assert told(world, RETENTION, OUTSIDE) == ["100000", "200000", None]
    shared = [str(value) for value in told(world, OVERRIDES, OUTSIDE)]
    assert [dict(entry.split(":") for entry in value.split(",")) for value in shared] == [
        {OTHERS: "3", ADDRESS: "50"},
        {OTHERS: "3", ADDRESS: "60"},
        {OTHERS: "3", ADDRESS: "60", BRIEFLY: "9"},
        {OTHERS: "3", ADDRESS: "60"},
        {OTHERS: "3"},
    ]
    assert {key for _, key, _ in cluster.configs_told} == {"max.connections", RETENTION, OVERRIDES}
    assert cluster.defaults == theirs
    assert cluster.quotas == {(("ip", OTHERS),): {RATE: 7.0}}
    assert list(cluster.topics) == ["orders"], "a topic outlives its object"
    assert len(cluster.topics["orders"].partitions) == 3


def leave(world: EngineWorld) -> None:
    for kind, name in (("connectionquota", "address"), ("connectionquota", "all"), ("topic", "orders")):
        world.delete(kind, name, "--wait=false")
    world.apply(outside(world, None))
