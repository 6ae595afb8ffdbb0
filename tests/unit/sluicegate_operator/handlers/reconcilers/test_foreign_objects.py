"""Objects of other clients with the name of a child: left unchanged, and named in the status with what to do.

The cases are all objects that the operator makes for the objects below, found by reconciling: a new kind of child needs
no line here.
"""

import asyncio
import base64
from contextlib import suppress
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, parse_resource
from sluicegate_operator.fleet.kafka.controllers import ControllerView
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.term import reconcilers
from sluicegate_operator.kube.http.errors import KubeConflictError
from sluicegate_operator.kube.http.kinds import EVENT, Kind
from sluicegate_operator.planning.registrations.overview import BrokerOverview, BrokerState, ClusterOverview
from sluicegate_operator.resources.labels import CLUSTER_ID, labels
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import MemoryKube
from tests.support.manifests.bad_manifests import Json, cluster, listener, observer, quota, topic
from tests.support.manifests.pipeline_manifests import SPARK, pipeline
from tests.support.manifests.user_manifests import kafka_user
from tests.support.processes.authority import TestAuthority

KEY = ("default", "shop")
NOW = datetime(2026, 1, 1, 20, 0, 5, tzinfo=UTC)
"""The names of runs have the hour: cases that were found in one hour are also tested in it."""
ROUNDS = 2
LANDING = {"landing": {"claimName": "audit"}}
BORN = {"uid": "of-the-shop", "creationTimestamp": "2026-01-01T00:00:00Z"}


def shop(**spec: Any) -> Json:
    code = {"allowConfigMapCode": True}
    return _born(cluster(controllers={"replicas": 3}, audit=LANDING, observers=code, **spec), "of-the-shop")


def _born(document: Json, uid: str) -> Json:
    return document | {"metadata": document["metadata"] | BORN | {"uid": uid}}


PEOPLES = (
    shop(),
    _born(listener(exposure="NodePort"), "of-the-listener"),
    quota(),
    topic(),
    observer(),
    _born(kafka_user(), "of-alice"),
    _born(pipeline("by-job"), "of-by-job"),
    _born(pipeline("by-apache", **SPARK, results={"uri": "s3://answers/a"}), "of-by-apache"),
    _born(
        pipeline("by-kubeflow", **SPARK | {"sparkOperator": "kubeflow"}, results={"uri": "s3://answers/k"}),
        "of-by-kubeflow",
    ),
)
_AUTHORITY = TestAuthority()
_PAIR = _AUTHORITY.issue("shop")
_PEM = {"tls.crt": _PAIR.certificate, "tls.key": _PAIR.key, "ca.crt": _AUTHORITY.pem}
SECURED = (
    shop(clusterCa={}),
    _born(listener(exposure="NodePort", tls={"secretName": "shop-tls"}), "of-the-listener"),
    {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "shop-tls"},
        "data": {name: base64.b64encode(pem.encode()).decode() for name, pem in _PEM.items()},
    },
)
VIEW = ControllerView(
    ClusterOverview("id", 1000, 1, 9, tuple(BrokerOverview(i, 7, "i", BrokerState.ONLINE, host="h") for i in range(3)))
)


class World:
    """The operator over an API server in memory, with a controller that reports all brokers as online."""

    def __init__(self, *others: Json, secured: bool = False) -> None:
        """`secured`: with TLS between nodes and for clients, which has Secrets and takes longer."""
        self.kube = MemoryKube(*PEOPLES, *(SECURED if secured else ()), *others)
        settings = read_settings({"SLUICEGATE_SETTLE_SECONDS": "0"}, None, None, None)
        self._context = Context(self.kube, settings)  # type: ignore[arg-type]
        self._context.mark = lambda queue, key: None
        self._reconcilers = reconcilers(self._context, settings)

    async def settle(self) -> None:
        async def view(*_: object) -> ControllerView:
            return VIEW

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("sluicegate_operator.fleet.kubernetes.kubernetes.controller_view", view)
            patched.setattr("sluicegate_operator.planning.rolls.start_failures.LASTING_S", 0.0)
            patched.setattr("sluicegate_operator.handlers.reconcilers.pipelines.now", lambda: NOW)
            for _ in range(ROUNDS):
                for reconcile in self._reconcilers.values():
                    await reconcile(KEY)

    async def close(self) -> None:
        await self._context.aclose()

    def depart(self) -> None:
        """Note the deletion of the cluster as the watch does."""
        gone = parse_resource(self.kube.take("BrokerCluster", "shop"))
        assert isinstance(gone, BrokerCluster)
        self._context.departed[KEY] = {gone.metadata.uid: gone}

    def said(self, name: str) -> list[str]:
        """Reasons of conditions and Events that name the object."""
        found = [item for item in self.kube.objects.values() if name in item.get("message", "")]
        reasons = [item["reason"] for item in found if item["kind"] == EVENT.kind]
        for item in self.kube.objects.values():
            conditions = (item.get("status") or {}).get("conditions") or ()
            reasons += [one["reason"] for one in conditions if name in one["message"]]
        return reasons


async def _made(*, secured: bool) -> list[tuple[str, str, str]]:
    """apiVersion, kind and name of every object that is made, and of the pods that StatefulSets make."""
    world = World(secured=secured)
    before = set(world.kube.objects)
    await world.settle()
    await world.close()
    made = [world.kube.objects[key] for key in world.kube.objects.keys() - before if key[0] != EVENT.kind]
    sets = [item for item in made if item["kind"] == "StatefulSet"]
    pods = [("v1", "Pod", f"{item['metadata']['name']}-0") for item in sets]
    return sorted([(item["apiVersion"], item["kind"], item["metadata"]["name"]) for item in made] + pods)


_SECRETS = [case for case in asyncio.run(_made(secured=True)) if case[1] == "Secret"]
MADE = sorted({*asyncio.run(_made(secured=False)), *_SECRETS})
ANOTHERS = [{"apiVersion": "example.org/v1", "kind": "Other", "name": "other", "uid": "x", "controller": True}]
EARLIER = {
    "apiVersion": "sluicegate.dev/v1alpha1",
    "kind": "BrokerCluster",
    "name": "shop",
    "uid": "gone",
    "controller": True,
}
MARKS: dict[str, Json] = {
    "unmarked": {"labels": {"mine": "yes"}},
    "controlled by another": {"labels": labels("shop"), "ownerReferences": ANOTHERS},
    "of another cluster": {"labels": labels("another")},
    "of an earlier cluster, unmarked": {"ownerReferences": [EARLIER]},
    "of an owner of another group": {
        "labels": labels("shop"),
        "ownerReferences": [EARLIER | {"apiVersion": "example.org/v1"}],
    },
}


def test_every_kind_of_child_is_among_the_cases() -> None:
    kinds = {kind for _, kind, _ in MADE}
    assert kinds >= {"ConfigMap", "CronJob", "NetworkPolicy", "PersistentVolumeClaim", "Pod", "PodDisruptionBudget"}
    assert kinds >= {"Role", "RoleBinding", "ScheduledSparkApplication", "Service", "ServiceAccount", "StatefulSet"}
    assert kinds >= {"BrokerRegistration", "SparkApplication"}
    assert "shop-observers" in {name for _, _, name in MADE}
    assert len(MADE) > 25
    assert {name for _, _, name in _SECRETS} == {
        "alice",
        "shop-cluster-ca",
        "shop-cluster-tls",
        "shop-external-listener-tls",
    }


@pytest.mark.parametrize("marks", MARKS)
@pytest.mark.parametrize(("version", "kind", "name"), MADE, ids=lambda value: value)
async def test_an_object_of_somebody_else_is_left_alone_and_named(
    version: str, kind: str, name: str, marks: str
) -> None:
    meta = {"name": name, "namespace": "default", "uid": "theirs", "creationTimestamp": "2026-06-01T00:00:00Z"}
    spec = {"resources": {"requests": {"storage": "1Gi"}}, "replicas": 7, "theirs": True}
    theirs = {"apiVersion": version, "kind": kind, "metadata": meta | deepcopy(MARKS[marks]), "spec": spec}
    world = World(theirs, secured=kind == "Secret")
    before = deepcopy(world.kube.take(kind, name))
    await world.settle()
    assert world.kube.take(kind, name) == before
    assert {"NameTaken", "ClaimsTaken"} & set(world.said(name)), "nobody is told"
    if kind == "PersistentVolumeClaim" or name == "shop-observers":
        assert "StatefulSet" not in {kind for kind, _, _ in world.kube.objects}, "pods would mount it"
    if marks == "unmarked":
        await _change_and_delete(world)
        assert world.kube.take(kind, name) == before
    await world.close()


@pytest.mark.parametrize(("version", "kind", "name"), MADE, ids=lambda value: value)
async def test_an_object_of_somebody_else_that_replaces_a_child_is_left_alone(
    version: str, kind: str, name: str
) -> None:
    """Somebody deletes a child while the operator runs, and creates an object of their own with its name."""
    world = World(secured=kind == "Secret")
    await world.settle()
    if (kind, "default", name) in world.kube.objects:
        theirs = deepcopy(world.kube.take(kind, name))
        world.kube.remove(kind, name)
    else:
        theirs = {"apiVersion": version, "kind": kind, "spec": {"theirs": True}}
    meta = {"name": name, "namespace": "default", "uid": "theirs", "creationTimestamp": "2026-06-01T00:00:00Z"}
    world.kube.put(theirs | {"metadata": meta | deepcopy(MARKS["of an earlier cluster, unmarked"])})
    before = deepcopy(world.kube.take(kind, name))
    await world.settle()
    assert world.kube.take(kind, name) == before
    await _change_and_delete(world)
    assert world.kube.take(kind, name) == before
    await world.close()


HANDED_OVER = ("ConfigMap", "CronJob", "NetworkPolicy", "ScheduledSparkApplication", "Service")
"""Kinds of children that the operator deletes by name, and that a user can take over by their labels."""


async def test_a_child_that_somebody_takes_over_a_moment_before_its_deletion_stays() -> None:
    """The operator has read it as its own, perhaps from its cache."""
    world = World()
    await world.settle()
    delete = world.kube.delete
    taken: set[tuple[str, str]] = set()

    async def late(kind: Kind, namespace: str, name: str, *, uid: str = "", resource_version: str = "") -> None:
        found = world.kube.objects.get((kind.kind, namespace, name))
        if found is not None and kind.kind in HANDED_OVER:
            theirs = deepcopy(found)
            theirs["metadata"] |= deepcopy(MARKS["controlled by another"])
            world.kube.put(theirs)
            taken.add((kind.kind, name))
        await delete(kind, namespace, name, uid=uid, resource_version=resource_version)

    world.kube.delete = late  # type: ignore[method-assign]
    other_mode = pipeline("by-job", **SPARK, results={"uri": "s3://answers/j"})
    world.kube.put(_born(other_mode, "of-by-job"))
    with suppress(KubeConflictError):
        await world.settle()
    with suppress(KubeConflictError):
        await _change_and_delete(world)
    assert {kind for kind, _ in taken} >= {"NetworkPolicy", "CronJob"}
    assert [key for key in taken if (key[0], "default", key[1]) not in world.kube.objects] == []
    await world.close()


async def _change_and_delete(world: World) -> None:
    """Make changes that delete children: other numbers, disabled fields, and the end of their owners."""
    world.kube.put(shop(storage={"deleteClaims": True}, networkPolicies=False, brokers=_brokers(2)))
    await world.settle()
    world.depart()
    for item in PEOPLES:
        world.kube.remove(item["kind"], item["metadata"]["name"])
    await world.settle()


def _brokers(replicas: int) -> Json:
    return {"replicas": replicas, "storage": {"size": "20Gi"}}


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "secured"])
@pytest.mark.parametrize(
    "marks", ["controlled by another", "of an owner of another group", "of another cluster", "labels alone"]
)
async def test_objects_with_the_labels_of_children_and_other_names_are_left_alone(marks: str, secured: bool) -> None:
    """The operator finds children that it no longer wants by their labels, which other clients may copy."""
    donor = World(secured=secured)
    await donor.settle()
    others = []
    for number, (version, kind, name) in enumerate(MADE):
        found = donor.kube.objects.get((kind, "default", name))
        if found is None:
            continue
        own = found["metadata"].get("labels", {})
        meta = {"name": f"{name}-x", "namespace": "default", "uid": f"theirs-{number}"} | deepcopy(MARKS.get(marks, {}))
        meta["labels"] = own | meta["labels"] if "labels" in meta else own
        others.append({**deepcopy(found), "apiVersion": version, "metadata": meta})
    await donor.close()
    assert len(others) > 4
    world = World(*others, secured=secured)
    before = [deepcopy(world.kube.take(item["kind"], item["metadata"]["name"])) for item in others]
    await world.settle()
    await _change_and_delete(world)
    assert [world.kube.take(item["kind"], item["metadata"]["name"]) for item in others] == before
    await world.close()


@pytest.mark.parametrize("name", ["data-shop-brokers-0", "data-shop-brokers-7"])
@pytest.mark.parametrize("late", [False, True], ids=["before the nodes", "while nodes run"])
async def test_a_claim_that_another_object_controls_is_left_alone_with_all_marks_of_the_cluster(
    name: str, late: bool
) -> None:
    """Another object, such as a restore tool's, takes over a claim with its labels and its annotation."""
    donor = World()
    await donor.settle()
    theirs = donor.kube.take("PersistentVolumeClaim", "data-shop-brokers-0")
    own = {"name": name, "uid": "theirs", "ownerReferences": ANOTHERS}
    theirs = {**theirs, "metadata": theirs["metadata"] | own}
    assert CLUSTER_ID in theirs["metadata"]["annotations"]
    await donor.close()
    world = World()
    if late:
        await world.settle()
    world.kube.put(theirs)
    before = deepcopy(world.kube.take("PersistentVolumeClaim", name))
    await world.settle()
    await _change_and_delete(world)
    assert world.kube.take("PersistentVolumeClaim", name) == before
    await world.close()


async def test_a_registration_of_somebody_else_is_named_also_while_it_is_being_deleted() -> None:
    """A finalizer may keep it for as long as its owner likes."""
    going = {"name": "shop-1", "deletionTimestamp": "2026-06-01T00:00:00Z", "finalizers": ["example.org/wait"]}
    spec = {"clusterRef": {"name": "shop"}, "brokerId": 1}
    theirs = {"apiVersion": "sluicegate.dev/v1alpha1", "kind": "BrokerRegistration", "spec": spec}
    world = World(theirs | {"metadata": going | deepcopy(MARKS["controlled by another"])})
    before = deepcopy(world.kube.take("BrokerRegistration", "shop-1"))
    await world.settle()
    assert world.kube.take("BrokerRegistration", "shop-1") == before
    assert "NameTaken" in world.said("shop-1")
    await world.close()
