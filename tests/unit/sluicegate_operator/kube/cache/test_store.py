"""The stored objects of one kind, for any order of events."""

from sluicegate_operator.kube.cache.cached_object import CachedObject
from sluicegate_operator.kube.cache.store import Store


def cached(name: str, version: int, *, uid: str = "", cluster: str = "shop") -> CachedObject:
    return CachedObject("default", name, uid or f"uid-{name}", version, cluster, {"metadata": {"name": name}})


def names(cache: Store, cluster: str = "shop") -> list[str]:
    return sorted(one.name for one in cache.of_cluster("default", cluster))


def test_nothing_goes_back_to_an_older_version() -> None:
    cache = Store()
    newer = cached("a", 7)
    assert cache.put(newer) == [(None, newer)]
    assert cache.put(cached("a", 6)) == []
    assert cache.put(cached("a", 7)) == [], "what we wrote ourselves is no news when the watch tells of it"
    assert cache.get("default", "a") is newer
    assert cache.remove(("default", "a"), 6) == [], "it was deleted before, and made again"
    assert cache.remove(("default", "a"), 8) == [(newer, None)]
    assert (cache.get("default", "a"), names(cache), len(cache)) == (None, [], 0)


def test_objects_are_found_by_their_cluster() -> None:
    cache = Store()
    for name, cluster in (("a", "shop"), ("b", "other"), ("c", "shop")):
        cache.put(cached(name, 1, cluster=cluster))
    assert (names(cache), names(cache, "other"), names(cache, "none")) == (["a", "c"], ["b"], [])
    cache.put(cached("a", 2, cluster="other"))
    assert (names(cache), names(cache, "other")) == (["c"], ["a", "b"])


def test_another_object_of_the_same_name_is_told_as_an_end_and_a_beginning() -> None:
    cache = Store()
    first, second = cached("a", 1, uid="one"), cached("a", 5, uid="two")
    cache.put(first)
    assert cache.put(second) == [(first, None), (None, second)]
    assert cache.remove_uid(("default", "a"), "one") == []
    assert cache.remove_uid(("default", "a"), "two") == [(second, None)]
