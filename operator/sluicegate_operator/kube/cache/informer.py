"""The informer of one kind: its Store, whether that has synced, and the time of the last contact. No I/O.

kopf lists a kind and then watches it from the list's resourceVersion. Changes arrive on two paths: kopf's HTTP session
reports each page of a list before kopf reads it (`replace`), and kopf's event handler reports each object (`apply`).
kopf calls handlers of different objects in any order, so every rule below compares resourceVersions and none relies on
an order.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluicegate_operator.kube.cache.cached_object import Reader, version_of
from sluicegate_operator.kube.cache.store import Change, Key, Store
from sluicegate_operator.kube.cache.watched import Watched
from sluicegate_operator.kube.http.errors import NOT_SERVED, KubeError, KubeUnavailableError

Json = Mapping[str, Any]

BROKEN_MAX_S = 10.0
"""Seconds for which objects are still served after a watch has failed."""
SILENT_PERIODS = 2.5
"""Number of a watch's periods for which objects are still served while the watch is silent."""
DELETED = "DELETED"


@dataclass(slots=True)
class Informer:
    """The objects of one kind in the cache, with the state of their watch.

    Times are in seconds of time.monotonic, which all threads share.
    """

    watched: Watched
    store: Store = field(default_factory=Store)
    has_synced: asyncio.Event = field(default_factory=asyncio.Event)
    """Event that is set when the store has every object of a list that was read to its end."""
    last_contact_s: float = 0.0
    """Time when the API server last sent anything about this kind, in seconds."""
    error: KubeError | None = None
    """The reason why the kind cannot be listed or watched now; None without a reason."""
    resource_version: int = 0
    """The highest resourceVersion seen: of an object, a list, or a watch that the API server has accepted."""
    lists: int = 0
    """Number of lists that were read to their end."""
    _listing: set[Key] = field(default_factory=set)
    """The keys of the objects in the list that kopf is reading now."""
    _pending: dict[Key, int] = field(default_factory=dict)
    """Objects of the newest list that kopf has not handed to its handler yet, with their resourceVersions."""
    _departed: list[Key] = field(default_factory=list)
    """Objects that the newest list lacks. They stay in the store until all objects of the list are stored."""
    _listed: bool = False
    _listed_s: float = 0.0
    _listed_version: int = 0
    """resourceVersion of the newest list that was read to its end."""
    _awaited: int = 0
    _handled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when at most `_awaited` objects are pending."""
    _reader: Reader = field(init=False)

    def __post_init__(self) -> None:
        self._reader = Reader(self.watched.trim)

    def why_unknown(self, now_s: float) -> KubeError | None:
        """Return the reason why no plan may use the store; None if plans may use it."""
        quiet_s = now_s - self.last_contact_s
        if self.error is not None and (not self.has_synced.is_set() or quiet_s > BROKEN_MAX_S):
            return self.error
        if not self.has_synced.is_set():
            return KubeUnavailableError(f"{self.watched.kind.plural} have not been listed yet")
        if self._pending and self._listed and now_s - self._listed_s > BROKEN_MAX_S:
            return KubeUnavailableError(
                f"{len(self._pending)} {self.watched.kind.plural} of the last list have not been processed yet"
            )
        if quiet_s > SILENT_PERIODS * self.watched.period_s:
            return KubeUnavailableError(f"the watch of {self.watched.kind.plural} has been silent for {quiet_s:.0f} s")
        return None

    def replace(
        self, items: Collection[Json], version: int, now_s: float, *, first: bool, last: bool, restored: bool = False
    ) -> tuple[Sequence[Json], list[Change]]:
        """Store a page of the list at `version`. Return the items that kopf's handler must see, and the changes.

        Those items are the ones that the store lacks in this resourceVersion. The changes are removals of objects that
        were deleted while no watch reported it. The removals follow after all objects in the list are stored, so that a
        quota that replaces another is known before the other is removed. `restored`: the API server's storage was
        restored, so it counts from a lower resourceVersion.
        """
        if first:
            self._listing, self._pending, self._departed, self._listed = set(), {}, [], False
            if restored:
                self.resource_version = self._listed_version = 0
                self.store.forget_versions()
        unseen = []
        for item in items:
            key, item_version = key_of(item), version_of(item["metadata"])
            self._listing.add(key)
            cached = self.store.get(*key)
            if cached is None or cached.version != item_version:
                self._pending[key] = item_version
                unseen.append(item)
        if last:
            self._departed = [key for key in self.store.names() if key not in self._listing]
            self._listing, self._listed, self._listed_s, self._listed_version = set(), True, now_s, version
            self.resource_version = max(self.resource_version, version)
            self.lists += 1
        return unseen, self._synced()

    def has(self, item: Json) -> bool:
        """Return whether the store has the object in this or a newer version."""
        cached = self.store.get(*key_of(item))
        return cached is not None and cached.version >= version_of(item["metadata"])

    def apply(self, event_type: str | None, item: Json) -> list[Change]:
        """Store an object of Kubernetes that kopf's handler got. Return the changes.

        `event_type` is None for an object of a list.
        """
        key, version = key_of(item), version_of(item["metadata"])
        if event_type is not None:
            self.resource_version = max(self.resource_version, version)
        if event_type == DELETED:
            changes = self.store.remove(key, version)
        elif self._is_outdated(key, version):
            changes = []
        else:
            changes = self.store.put(self._reader.read(self.watched.kind, item))
        if version >= self._pending.get(key, version + 1):
            del self._pending[key]
            self._wake()
        return changes + self._synced()

    async def until_pending(self, count: int) -> None:
        """Return when at most `count` objects of the newest list have not reached kopf's handler."""
        self._awaited = count
        self._handled.clear()
        self._wake()
        await self._handled.wait()

    def note(self, answer: Json) -> list[Change]:
        """Store an object from the API server's answer to a write of the operator. Return the changes."""
        cached = self.store.get(*key_of(answer))
        if version_of(answer["metadata"]) <= (self.resource_version if cached is None else cached.version):
            # The watch has already reported this object, or its deletion.
            return []
        body = {"metadata": answer["metadata"]} if self.watched.metadata_only else answer
        return self.store.put(self._reader.read(self.watched.kind, body))

    def contact(self, now_s: float) -> None:
        """Record that the API server has sent something about this kind, even if only a bookmark."""
        self.last_contact_s, self.error = now_s, None

    def fail(self, error: KubeError) -> None:
        """Record that the kind cannot be listed or watched."""
        if error.status == NOT_SERVED:
            # The CRD was deleted with its objects, and nothing is known of a CRD that is created later.
            self.unsync()
        self.error = error

    def unsync(self) -> None:
        """Mark the store as not synced until the next list is complete."""
        self._listed = False
        self.has_synced.clear()

    def _wake(self) -> None:
        if len(self._pending) <= self._awaited:
            self._handled.set()

    def _synced(self) -> list[Change]:
        """If every object of the newest list is stored, remove the objects that the list lacks. Returns the changes."""
        if not self._listed or self._pending:
            return []
        changes = [change for key in self._departed for change in self.store.remove(key, self._listed_version)]
        self._departed = []
        self.has_synced.set()
        return changes

    def _is_outdated(self, key: Key, version: int) -> bool:
        """Return whether the store has the object in this or a newer version, or the object was deleted meanwhile.

        An object that the newest list should contain but does not was deleted before kopf handed it on.
        """
        cached = self.store.get(*key)
        if cached is not None:
            return version <= cached.version
        return version <= self._listed_version and key not in self._pending


def key_of(item: Json) -> Key:
    meta = item["metadata"]
    return meta.get("namespace") or "", meta["name"]
