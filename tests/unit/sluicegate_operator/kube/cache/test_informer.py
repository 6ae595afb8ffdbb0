"""The content of an informer, for any order in which kopf calls handlers of different objects."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate_operator.kube.cache.informer import BROKEN_MAX_S, Informer
from sluicegate_operator.kube.cache.watched import Watched
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import CONFIG_MAP

Json = dict[str, Any]


def item(name: str, version: int, uid: str = "") -> Json:
    meta = {"name": name, "namespace": "default", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": meta}


@pytest.fixture
def informer() -> Informer:
    return Informer(Watched(CONFIG_MAP, 30))


def listed(informer: Informer, *items: Json, version: int) -> Sequence[Any]:
    unseen, _ = informer.replace(items, version, 0.0, first=True, last=True)
    return unseen


def names(informer: Informer) -> list[str]:
    return sorted(name for _, name in informer.store.names())


def test_a_store_has_synced_when_kopf_has_handed_on_all_of_a_list(informer: Informer) -> None:
    informer.replace([item("a", 3)], 9, 0.0, first=True, last=False)
    informer.apply(None, item("a", 3))
    assert not informer.has_synced.is_set(), "there is another page"
    informer.replace([item("b", 4)], 9, 0.0, first=False, last=True)
    assert not informer.has_synced.is_set(), "b was not handed on"
    informer.apply(None, item("b", 4))
    assert informer.has_synced.is_set()


def test_an_empty_list_is_a_store_that_has_synced(informer: Informer) -> None:
    listed(informer, version=9)
    assert informer.has_synced.is_set()


def test_kopf_sees_only_new_objects_of_a_second_list_and_missing_ones_are_removed_last(informer: Informer) -> None:
    for one in listed(informer, item("a", 3), item("b", 4), version=9):
        informer.apply(None, one)
    assert listed(informer, item("b", 4), item("c", 12), version=15) == [item("c", 12)]
    assert names(informer) == ["a", "b"]
    [(_, came), (gone, nothing)] = informer.apply(None, item("c", 12))
    assert came is not None
    assert gone is not None
    assert (came.name, gone.name, nothing) == ("c", "a", None)
    assert names(informer) == ["b", "c"]


def test_a_list_that_kopf_does_not_hand_on_is_not_trusted_for_long(informer: Informer) -> None:
    listed(informer, version=9)
    listed(informer, item("a", 12), version=15)
    informer.contact(BROKEN_MAX_S + 1)
    assert informer.why_unknown(BROKEN_MAX_S) is None
    assert "have not been processed yet" in str(informer.why_unknown(BROKEN_MAX_S + 1))


def test_an_event_from_before_the_list_brings_nothing_back(informer: Informer) -> None:
    listed(informer, version=30)
    informer.apply("MODIFIED", item("deleted at 25", 20))
    assert names(informer) == []
    informer.apply("ADDED", item("new", 31))
    assert names(informer) == ["new"]


def test_an_object_that_was_made_again_outlives_the_deletion_of_the_first(informer: Informer) -> None:
    listed(informer, item("a", 3), version=9)
    informer.apply(None, item("a", 3))
    informer.apply("ADDED", item("a", 12, uid="second"))
    informer.apply("DELETED", item("a", 11))
    assert names(informer) == ["a"]


def test_an_own_write_is_known_though_kopf_has_handed_on_a_later_event_of_another_object(informer: Informer) -> None:
    listed(informer, item("a", 3), item("b", 4), version=9)
    informer.apply(None, item("a", 3))
    informer.apply(None, item("b", 4))
    informer.apply("MODIFIED", item("b", 20))
    informer.note(item("a", 18))
    cached = informer.store.get("default", "a")
    assert cached is not None
    assert cached.version == 18
    informer.apply("DELETED", item("a", 21))
    informer.note(item("a", 19))
    assert names(informer) == ["b"], "the watch has reported its deletion"


def test_a_kind_that_is_gone_is_unknown_until_its_next_list(informer: Informer) -> None:
    listed(informer, version=9)
    informer.fail(KubeError("not served", 404))
    assert not informer.has_synced.is_set()
    listed(informer, version=12)
    assert informer.has_synced.is_set()


OPERATIONS = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=12)


@given(operations=OPERATIONS, lists_at=st.sets(st.integers(1, 12), max_size=3), data=st.data())
def test_whatever_the_order_of_handlers_the_store_becomes_the_world(
    operations: list[tuple[str, bool]], lists_at: set[int], data: st.DataObject
) -> None:
    """Objects are written and deleted, and the watch breaks. kopf only keeps the order of one object's events."""
    informer = Informer(Watched(CONFIG_MAP, 30))
    world: dict[str, Json] = {}
    waiting: dict[str, list[tuple[str | None, Json]]] = {}

    def hand_on(one: str) -> None:
        informer.apply(*waiting[one].pop(0))
        if not waiting[one]:
            del waiting[one]

    def relist(version: int) -> None:
        items = sorted(world.values(), key=lambda found: str(found["metadata"]["name"]))
        for one in listed(informer, *items, version=version):
            waiting.setdefault(one["metadata"]["uid"], []).append((None, one))

    relist(1)
    for version, (name, deletes) in enumerate(operations, start=2):
        before = world.get(name)
        event = "DELETED" if deletes else "ADDED" if before is None else "MODIFIED"
        if before is None and deletes:
            continue
        uid = f"{name} of {version}" if before is None else before["metadata"]["uid"]
        now = item(name, version, uid)
        if deletes:
            del world[name]
        else:
            world[name] = now
        if version - 1 in lists_at:
            # This event is lost.
            relist(version)
        else:
            waiting.setdefault(uid, []).append((event, now))
        while data.draw(st.booleans()) and waiting:
            hand_on(data.draw(st.sampled_from(sorted(waiting))))
    while waiting:
        hand_on(data.draw(st.sampled_from(sorted(waiting))))
    assert informer.has_synced.is_set()
    cached = {found.name: found.version for found in informer.store.values()}
    assert cached == {name: int(one["metadata"]["resourceVersion"]) for name, one in world.items()}
