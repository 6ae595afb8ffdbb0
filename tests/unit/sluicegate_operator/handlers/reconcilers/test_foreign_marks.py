"""Objects of other clients beside and in place of children, whatever marks they have, and whenever they appear."""

from copy import deepcopy
from typing import Any

import pytest

from sluicegate_operator.kube.http.errors import KubeConflictError
from sluicegate_operator.resources.labels import labels
from tests.support.manifests.bad_manifests import Json
from tests.support.worlds.foreign_worlds import ANOTHERS, EARLIER, MADE, World, change_and_delete


def cases(*without: str) -> pytest.MarkDecorator:
    """All objects that are made, without those of some kinds. The first one of each kind is tested quickly."""
    kinds: set[str] = set()
    chosen = []
    for case in (one for one in MADE if one[1] not in without):
        chosen.append(pytest.param(*case, marks=[pytest.mark.full] if case[1] in kinds else [], id=":".join(case[1:])))
        kinds.add(case[1])
    return pytest.mark.parametrize(("version", "kind", "name"), chosen)


TAKEN = {"NameTaken", "ClaimsTaken"}
NEVER_HANDED_OVER = ("BrokerRegistration", "PersistentVolumeClaim", "Pod", "SparkApplication", "StatefulSet")
"""Kinds with rules of their own for objects without a controller."""
WRITTEN_ONCE = ("BrokerRegistration", "PersistentVolumeClaim", "Pod", "Secret", "SparkApplication")
"""Kinds of which an object that is as wanted is not written again."""


def theirs(version: str, kind: str, name: str, **metadata: Any) -> Json:
    meta = {"name": name, "namespace": "default", "uid": "theirs", "creationTimestamp": "2026-06-01T00:00:00Z"}
    spec = {"resources": {"requests": {"storage": "1Gi"}}, "replicas": 7, "theirs": True}
    return {"apiVersion": version, "kind": kind, "metadata": meta | deepcopy(metadata), "spec": spec}


def taken_words(world: World, name: str) -> list[str]:
    return [message for reason, message in world.told() if reason in TAKEN and name in message]


@cases("PersistentVolumeClaim")
@pytest.mark.parametrize("owners", [[], ANOTHERS], ids=["no owner", "controlled by another"])
async def test_a_foreign_object_that_is_being_deleted_is_not_to_be_deleted_again(
    version: str, kind: str, name: str, owners: list[Json]
) -> None:
    """The finalizer of another controller keeps the object. Pods wait by themselves until a claim is gone."""
    going = {"deletionTimestamp": "2026-06-01T00:00:00Z", "finalizers": ["example.org/wait"]}
    world = World(theirs(version, kind, name, ownerReferences=owners, **going), secured=kind == "Secret")
    before = deepcopy(world.kube.take(kind, name))
    await world.settle()
    assert world.kube.take(kind, name) == before
    words = taken_words(world, name)
    assert words
    assert [one for one in words if "delete it" in one or "delete the Pod" in one] == []
    assert all("is being deleted, and stays until its finalizers are removed: example.org/wait" in one for one in words)
    await change_and_delete(world)
    assert world.kube.take(kind, name) == before
    await world.close()


@cases("Pod")
async def test_an_object_that_appears_between_the_read_and_the_write_is_left_alone(
    version: str, kind: str, name: str
) -> None:
    world = World(secured=kind == "Secret")
    found: list[Json] = []

    def appear(of: str, named: str) -> None:
        if (of, named) == (kind, name) and not found:
            found.append(world.kube.put(theirs(version, kind, name, labels={"mine": "yes"})))

    world.kube.before_write = appear
    world.conflicts = (KubeConflictError,)
    await world.settle()
    before = deepcopy(found[0])
    await world.settle()
    assert world.kube.take(kind, name) == before
    assert TAKEN & set(world.said(name)), "nobody is told"
    await world.close()


@cases(*WRITTEN_ONCE)
async def test_an_object_that_replaces_a_child_between_the_read_and_the_write_is_left_alone(
    version: str, kind: str, name: str
) -> None:
    world = World(secured=kind == "Secret")
    await world.settle()
    replaced: list[Json] = []

    def replace(of: str, named: str) -> None:
        if (of, named) == (kind, name) and not replaced:
            world.kube.remove(kind, name)
            replaced.append(deepcopy(world.kube.put(theirs(version, kind, name))))

    world.kube.before_write = replace
    world.conflicts = (KubeConflictError,)
    await world.settle()
    assert replaced
    await world.settle()
    assert world.kube.take(kind, name) == replaced[0]
    await world.close()


@cases(*NEVER_HANDED_OVER)
async def test_labels_hand_an_object_over_and_another_controller_takes_it_back(
    version: str, kind: str, name: str
) -> None:
    world = World(theirs(version, kind, name, labels={"mine": "yes"}), secured=kind == "Secret")
    await world.settle()
    found = world.kube.take(kind, name)
    world.kube.put(found | {"metadata": found["metadata"] | {"labels": labels("shop")}})
    if kind == "Secret" and name.startswith("shop-cluster"):
        await world.settle()
        assert TAKEN & set(world.said(name)), "certificates of an unknown client are not taken over"
        await world.close()
        return
    await world.settle()
    ours = world.kube.take(kind, name)
    assert [owner["uid"] for owner in ours["metadata"]["ownerReferences"]] != []
    back = {**ours["metadata"], "ownerReferences": ANOTHERS}
    before = deepcopy(world.kube.put(ours | {"metadata": back}))
    await world.settle()
    assert world.kube.take(kind, name) == before
    assert TAKEN & set(world.said(name)), "nobody is told"
    await world.close()


async def test_objects_of_another_namespace_with_all_marks_change_nothing() -> None:
    """The objects have the names, labels, annotations and owners of the cluster's own."""
    donor = World()
    await donor.settle()
    twins = []
    for number, (_, kind, name) in enumerate(MADE):
        if (kind, "default", name) in donor.kube.objects:
            found = deepcopy(donor.kube.take(kind, name))
            twins.append(found | {"metadata": found["metadata"] | {"namespace": "other", "uid": f"twin-{number}"}})
    await donor.close()
    assert len(twins) > 30
    alone, beside = World(), World(*twins)
    before = {key: deepcopy(item) for key, item in beside.kube.objects.items() if key[1] == "other"}
    for act in (World.settle, change_and_delete):
        for world in (alone, beside):
            await act(world)
        assert {key: item for key, item in beside.kube.objects.items() if key[1] == "other"} == before
        assert sorted(beside.told()) == sorted(alone.told())
        assert _children(beside) == _children(alone)
    await alone.close()
    await beside.close()


def _children(world: World) -> list[tuple[str, str | None, str]]:
    """The objects of the cluster's namespace without Events, whose names contain the time."""
    return [key for key in world.kube.objects if key[0] != "Event" and key[1] == "default"]


@cases("BrokerRegistration", "PersistentVolumeClaim", "Pod")
async def test_the_sentence_about_an_earlier_or_a_foreign_owner_of_the_name_tells_it_from_the_present_one(
    version: str, kind: str, name: str
) -> None:
    """ "BrokerCluster shop controls it" would be false: the BrokerCluster shop that the user knows does not."""
    world = World(secured=kind == "Secret")
    await world.settle()
    owners = world.kube.take(kind, name)["metadata"]["ownerReferences"]
    await world.close()
    for other, words in (({"uid": "gone"}, "an earlier"), ({"apiVersion": "example.org/v1"}, "of example.org/v1")):
        owner = {**owners[0], "uid": "x", **other}
        world = World(theirs(version, kind, name, ownerReferences=[owner]), secured=kind == "Secret")
        await world.settle()
        assert taken_words(world, name), (kind, name)
        assert all(words in one for one in taken_words(world, name))
        await world.close()


@cases("BrokerRegistration", "Pod")
async def test_the_sentence_names_the_uid_of_a_controller_whose_name_a_live_object_has(
    version: str, kind: str, name: str
) -> None:
    gone = {**EARLIER, "kind": "AuditPipeline" if kind != "CronJob" else "BrokerCluster"}
    world = World(theirs(version, kind, name, ownerReferences=[gone]), secured=kind == "Secret")
    await world.settle()
    assert taken_words(world, name)
    assert all("with the uid gone controls" in one for one in taken_words(world, name))
    await world.close()


@cases(*NEVER_HANDED_OVER)
async def test_the_sentence_names_the_cluster_to_which_an_object_without_a_controller_belongs(
    version: str, kind: str, name: str
) -> None:
    world = World(theirs(version, kind, name, labels=labels("another")), secured=kind == "Secret")
    await world.settle()
    assert taken_words(world, name)
    assert all("its label sluicegate.dev/cluster names cluster another" in one for one in taken_words(world, name))
    await world.close()


async def test_a_stateful_set_of_another_api_group_controls_neither_claims_nor_pods_of_the_cluster() -> None:
    """OpenKruise has StatefulSets, too."""
    kruise = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "shop-brokers", "uid": "k"}
    owner = kruise | {"controller": True}
    claim = theirs(
        "v1", "PersistentVolumeClaim", "data-shop-brokers-0", labels=labels("shop", "broker"), ownerReferences=[owner]
    )
    world = World(claim)
    before = deepcopy(world.kube.take("PersistentVolumeClaim", "data-shop-brokers-0"))
    await world.settle()
    assert world.kube.take("PersistentVolumeClaim", "data-shop-brokers-0") == before
    assert "ClaimsTaken" in world.said("StatefulSet shop-brokers of apps.kruise.io controls data-shop-brokers-0")
    assert "StatefulSet" not in {kind for kind, _, _ in world.kube.objects}
    await world.close()
