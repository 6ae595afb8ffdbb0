"""Objects of other clients with the name of a child: left unchanged, and named in the status with what to do.

The cases are all objects that the operator makes for the objects below, found by reconciling: a new kind of child needs
no line here.
"""

from copy import deepcopy

import pytest

from sluicegate_operator.kube.http.errors import KubeConflictError
from sluicegate_operator.kube.http.kinds import Kind
from sluicegate_operator.resources.labels import CLUSTER_ID
from tests.support.manifests.pipeline_manifests import SPARK, pipeline
from tests.support.worlds.foreign_worlds import ANOTHERS, MADE, MARKS, SECRETS, World, born, change_and_delete


def test_every_kind_of_child_is_among_the_cases() -> None:
    kinds = {kind for _, kind, _ in MADE}
    assert kinds >= {"ConfigMap", "CronJob", "NetworkPolicy", "PersistentVolumeClaim", "Pod", "PodDisruptionBudget"}
    assert kinds >= {"Role", "RoleBinding", "ScheduledSparkApplication", "Service", "ServiceAccount", "StatefulSet"}
    assert kinds >= {"BrokerRegistration", "SparkApplication"}
    assert "shop-observers" in {name for _, _, name in MADE}
    assert len(MADE) > 25
    assert {name for _, _, name in SECRETS} == {
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
        await change_and_delete(world)
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
    await change_and_delete(world)
    assert world.kube.take(kind, name) == before
    await world.close()


HANDED_OVER = ("BrokerRegistration", "ConfigMap", "CronJob", "NetworkPolicy", "ScheduledSparkApplication", "Service")
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
    world.kube.put(born(other_mode, "of-by-job"))
    world.conflicts = (KubeConflictError,)
    await world.settle()
    await change_and_delete(world)
    assert {kind for kind, _ in taken} >= {"BrokerRegistration", "CronJob", "NetworkPolicy", "Service"}
    assert [key for key in taken if (key[0], "default", key[1]) not in world.kube.objects] == []
    await world.close()


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
    await change_and_delete(world)
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
    await change_and_delete(world)
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
