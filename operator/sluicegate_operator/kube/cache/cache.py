"""The operator's cache of the API server's objects: an informer for each kind, whose events kopf delivers.

A kind that has not synced, or whose watch has been silent for too long, raises an error and is never read as empty. The
operator stores its own writes when the API server has answered, so no reconcile plans from a state before them. A step
that cannot be undone states the uid and resourceVersion that it was decided for, or reads the object again.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from sluicegate_operator.api.schema.metadata import Resource
from sluicegate_operator.kube.cache.cached_object import CachedObject, UnreadableObject, Value
from sluicegate_operator.kube.cache.feed import Feed
from sluicegate_operator.kube.cache.informer import Informer, key_of
from sluicegate_operator.kube.cache.store import Change, Store
from sluicegate_operator.kube.cache.watched import Watched
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import Kind

log = logging.getLogger(__name__)

Json = Mapping[str, Any]

FILL_PATIENCE_S = 30.0
"""Seconds that a reader waits for a kind that is still being listed, before it gets an error.

kopf hands on 1,000 objects in about a second of processor time.
"""
TOLD_PER_SLICE = 64
"""Number of objects that a new subscriber receives before the event loop runs other tasks."""

Found = TypeVar("Found", bound=Resource)
Subscriber = Callable[[Kind, CachedObject | None, CachedObject | None], None]
"""A function that is called for each change, with the object before and after it."""


class Cache:
    """The informers of all watched kinds. Belongs to one event loop.

    `handlers.kopf_operator` runs kopf for the cache, which writes to it through `feed`.
    """

    def __init__(self, watched: Sequence[Watched]) -> None:
        self._kinds = {one.kind: Informer(one) for one in watched}
        self._subscribers: list[Subscriber] = []
        self.on_error: Callable[[], None] = _ignore
        """Called when the error of a kind begins, changes or ends."""
        self.feed = Feed(self._kinds, self._notify, lambda: self.on_error())

    async def resources(self, kind: Kind, namespace: str, cluster: str) -> list[Resource | UnreadableObject]:
        """Return all objects of a custom kind that name the cluster, including those that are being deleted.

        Raises KubeError.
        """
        known = await self._known(kind)
        return [
            cached.value
            for cached in known.of_cluster(namespace, cluster)
            if isinstance(cached.value, Resource | UnreadableObject)
        ]

    async def everywhere(self, kind: Kind, model: type[Found]) -> list[Found]:
        """Return all readable objects of a custom kind in all watched namespaces that are not being deleted.

        Raises KubeError if the kind has not synced or its watch fails.
        """
        values = await self.of_kind(kind)
        return [one for one in values if isinstance(one, model) and one.metadata.deletion_timestamp is None]

    async def of_kind(self, kind: Kind) -> Sequence[Value]:
        """Return all objects of a kind in all watched namespaces.

        They include unreadable objects, and those that are being deleted. Raises KubeError if the kind is not known.
        """
        return [cached.value for cached in (await self._known(kind)).values()]

    async def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """Return an object of a kind that is not custom; None if it does not exist. Raises KubeError."""
        cached = (await self._known(kind)).get(namespace, name)
        return None if cached is None else _document(cached)

    async def list(self, kind: Kind, namespace: str, cluster: str, **labels: str) -> list[Json]:
        """Return the objects of a kind that is not custom that belong to the cluster and have these labels.

        Raises KubeError.
        """
        found = [_document(cached) for cached in (await self._known(kind)).of_cluster(namespace, cluster)]
        return [one for one in found if labels.items() <= (one["metadata"].get("labels") or {}).items()]

    def peek(self, kind: Kind, namespace: str, name: str) -> tuple[bool, Json | None]:
        """Return whether the kind is known now, and the stored object.

        If the object is None it may still exist: without the label that the watch selects by, or created a moment ago.
        """
        one = self._kinds.get(kind)
        if one is None or one.why_unknown(time.monotonic()) is not None:
            return False, None
        cached = one.store.get(namespace, name)
        return True, None if cached is None else _document(cached)

    async def _known(self, kind: Kind) -> Store:
        one = self._kinds[kind]
        if not one.has_synced.is_set() and one.error is None:
            try:
                async with asyncio.timeout(FILL_PATIENCE_S):
                    await one.has_synced.wait()
            except TimeoutError:
                pass
        if (why := one.why_unknown(time.monotonic())) is not None:
            raise why
        return one.store

    def note(self, kind: Kind, answer: Json) -> CachedObject | None:
        """Store an object from the API server's answer to a write. Return the stored object."""
        one = self._kinds.get(kind)
        if one is None or not one.has_synced.is_set() or not _selects(one.watched, answer):
            return None
        self._notify(kind, one.note(answer))
        return one.store.get(*key_of(answer))

    def note_gone(self, kind: Kind, namespace: str, name: str, uid: str) -> None:
        one = self._kinds.get(kind)
        if one is not None:
            self._notify(kind, one.store.remove_uid((namespace, name), uid))

    async def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` for every stored object, and then for each change, until `unsubscribe`."""
        self._subscribers.append(subscriber)
        for kind, one in self._kinds.items():
            for number, key in enumerate(list(one.store.names())):
                cached = one.store.get(*key)
                if cached is not None:
                    _deliver(subscriber, kind, (None, cached))
                if number % TOLD_PER_SLICE == TOLD_PER_SLICE - 1:
                    await asyncio.sleep(0)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        if subscriber in self._subscribers:
            self._subscribers.remove(subscriber)

    def errors(self) -> dict[Kind, KubeError]:
        """Return the kinds that cannot be listed or watched now, with the reason."""
        return {kind: one.error for kind, one in self._kinds.items() if one.error is not None}

    def informers(self) -> Mapping[Kind, Informer]:
        """Return the informer of each kind, whose store may not have synced. Any thread may call this."""
        return self._kinds

    def _notify(self, kind: Kind, changes: Sequence[Change]) -> None:
        for change in changes:
            for subscriber in self._subscribers:
                _deliver(subscriber, kind, change)


def _deliver(subscriber: Subscriber, kind: Kind, change: Change) -> None:
    """Call a subscriber with one change.

    If it raises, it still receives later changes, which may belong to other users.
    """
    before, after = change
    try:
        subscriber(kind, before, after)
    except Exception:
        named = after or before
        log.exception("a subscriber failed on a change of %s %s", kind.plural, named.key if named is not None else "")


def _document(cached: CachedObject) -> Json:
    assert not isinstance(cached.value, Resource | UnreadableObject), "asked for by `resources`"
    return cached.value


def _selects(watched: Watched, answer: Json) -> bool:
    """Return whether the watch of the kind includes this object. A selector is the name of a label."""
    return not watched.selector or watched.selector in (answer["metadata"].get("labels") or {})


def _ignore() -> None:
    """Ignore an error: the default of `on_error`."""
