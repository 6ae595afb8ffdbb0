"""The ConfigMaps of a cluster that are deleted, and those that must stay though nothing seems to need them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.fleet.pods.config_maps import collect_config_maps
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import CONFIG_MAP, POD, Kind
from tests.support.fakes.kube.memory_kube import MemoryCache

Json = dict[str, Any]
UID = "6264ce5a-f913-40b0-85d0-94474e8cc1d2"
CLUSTER = BrokerCluster.model_validate(
    {"metadata": {"name": "shop", "uid": UID}, "spec": {"brokers": {"replicas": 1, "storage": {"size": "1Gi"}}}}
)


def config_map(name: str, owner: str = UID) -> Json:
    return {
        "metadata": {
            "name": name,
            "uid": f"uid of {name}",
            "resourceVersion": f"version of {name}",
            "ownerReferences": [{"uid": owner, "controller": True}],
        }
    }


def using(name: str, pod: str = "") -> Json:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "d"}}]
    return {"metadata": {"name": pod}, "spec": {"volumes": [*volumes, {"name": "config", "configMap": {"name": name}}]}}


def node_set(uses: str, observed: int = 2) -> Json:
    return {
        "metadata": {"generation": 2},
        "spec": {"replicas": 1, "template": using(uses)},
        "status": {"observedGeneration": observed},
    }


@dataclass
class FakeKube:
    """A control plane that changes only by calls."""

    config_maps: Sequence[Json]
    pods: Sequence[Json]
    node_sets: Mapping[str, Json]
    refuses: str = ""
    """The name of a ConfigMap that is protected from deletion."""
    deleted: list[tuple[str, str]] = field(default_factory=list)

    @property
    def cache(self) -> MemoryCache:
        return MemoryCache(cast(Any, self))

    async def list(self, kind: Kind, namespace: str, selector: str) -> Sequence[Json]:
        assert "sluicegate.dev/cluster=shop" in selector
        return {CONFIG_MAP: self.config_maps, POD: self.pods}[kind]

    async def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        return self.node_sets.get(name)

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str, resource_version: str) -> None:
        assert kind is CONFIG_MAP
        assert resource_version == f"version of {name}", "a user may have taken it over since it was read"
        if name == self.refuses:
            raise KubeError(f"DELETE {name}: 403 denied by a policy", 403)
        self.deleted.append((name, uid))


async def deleted(kube: FakeKube) -> list[str]:
    await collect_config_maps(cast(KubeClient, kube), CLUSTER, Refusals())
    assert all(uid == f"uid of {name}" for name, uid in kube.deleted)
    return [name for name, _ in kube.deleted]


MAPS = [config_map(name) for name in ("old", "brokers", "controllers")]
SETS = {"shop-brokers": node_set("brokers"), "shop-controllers": node_set("controllers")}
BROKER, CONTROLLER = "shop-brokers-0", "shop-controllers-0"


async def test_unused_config_maps_are_deleted() -> None:
    assert await deleted(FakeKube(MAPS, [using("brokers", BROKER), using("controllers", CONTROLLER)], SETS)) == ["old"]


async def test_a_config_map_that_may_not_be_deleted_is_named_and_keeps_no_other() -> None:
    pods = [using("brokers", BROKER), using("controllers", CONTROLLER)]
    kube = FakeKube([config_map("older"), *MAPS], pods, SETS, refuses="older")
    [sentence] = await collect_config_maps(cast(KubeClient, kube), CLUSTER, Refusals())
    assert sentence == "unused ConfigMap older cannot be deleted: DELETE older: 403 denied by a policy"
    assert [name for name, _ in kube.deleted] == ["old"]


def orphan(name: str, **labels: str) -> Json:
    ours = {"app.kubernetes.io/managed-by": "sluicegate-operator", "sluicegate.dev/cluster": "shop"}
    known = {"uid": f"uid of {name}", "resourceVersion": f"version of {name}"}
    return {"metadata": {"name": name, **known, "labels": ours | labels}}


A, B, C = "0a1b2c3d4e", "1a1b2c3d4e", "2a1b2c3d4e"


async def test_orphaned_config_maps_with_names_of_this_cluster_are_deleted() -> None:
    used = f"shop-controllers-{A}"
    pods = [using("brokers", BROKER), using(used, CONTROLLER)]
    names = (f"shop-brokers-{A}", used, f"shop-controllers-{B}", "shop-observers")
    other = {"sluicegate.dev/cluster": "other"}
    orphans = [*map(orphan, names), orphan("handed-over"), orphan(f"shop-brokers-{C}", **other)]
    copies = [orphan(f"shop-brokers-{A}-copy"), orphan("shop-brokers-backup"), orphan(f"shop-brokers-of-{A}")]
    assert await deleted(FakeKube([*MAPS[1:], *orphans, *copies], pods, SETS)) == [
        f"shop-brokers-{A}",
        f"shop-controllers-{B}",
        "shop-observers",
    ]


async def test_the_file_of_a_pod_that_waits_for_its_restart_stays() -> None:
    assert await deleted(FakeKube(MAPS, [using("old", BROKER), using("controllers", CONTROLLER)], SETS)) == []


async def test_no_config_map_is_deleted_while_a_node_is_unlisted_and_may_have_lost_its_label() -> None:
    assert await deleted(FakeKube(MAPS, [using("controllers", CONTROLLER)], SETS)) == []


@pytest.mark.parametrize("sets", [SETS | {"shop-brokers": node_set("brokers", observed=1)}, {}])
async def test_nothing_goes_while_a_pod_may_yet_be_made_of_an_older_template(sets: Mapping[str, Json]) -> None:
    assert await deleted(FakeKube(MAPS, [], sets)) == []


async def test_what_is_not_of_this_very_cluster_stays() -> None:
    maps = [*MAPS[1:], config_map("of a cluster that had this name", owner="another"), {"metadata": {"name": "mine"}}]
    assert await deleted(FakeKube(maps, [], SETS)) == []
