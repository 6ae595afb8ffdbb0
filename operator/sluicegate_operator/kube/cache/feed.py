"""The interface through which kopf's HTTP session and kopf's event handler write to a cache."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from sluicegate_operator.kube.cache.informer import Informer
from sluicegate_operator.kube.cache.store import Change
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import Kind

Json = Mapping[str, Any]


class Feed:
    """The writer of a cache's informers, on the cache's event loop.

    `notify` is called with the changes of a kind, `on_error` when the error of a kind begins, changes or ends.
    """

    def __init__(
        self,
        informers: Mapping[Kind, Informer],
        notify: Callable[[Kind, Sequence[Change]], None],
        on_error: Callable[[], None],
    ) -> None:
        self.informers = informers
        self._notify = notify
        self._on_error = on_error

    def replace(
        self, kind: Kind, items: Collection[Json], version: int, *, first: bool, last: bool, restored: bool = False
    ) -> Sequence[Json]:
        """Store a page of a list of Kubernetes objects. Return the items that kopf's handler must see."""
        now_s = time.monotonic()
        unseen, changes = self.informers[kind].replace(items, version, now_s, first=first, last=last, restored=restored)
        self._notify(kind, changes)
        self.contact(kind)
        return unseen

    def apply(self, kind: Kind, event_type: str | None, item: Json) -> None:
        """Apply an event from kopf's event handler to the informer of its kind, and notify the subscribers."""
        self._notify(kind, self.informers[kind].apply(event_type, item))

    def take_if_known(self, kind: Kind, event_type: str, item: Json) -> bool:
        """Apply an event of a watch, if the store has this version of the object or a newer one.

        Returns whether the store has it. If not, the event is passed to kopf's handler.
        """
        one = self.informers[kind]
        if not one.has(item):
            return False
        self._notify(kind, one.apply(event_type, item))
        return True

    def contact(self, kind: Kind, version: int = 0) -> None:
        """Record that the API server has answered for the kind.

        `version`: the API server has accepted a watch from this resourceVersion.
        """
        one = self.informers[kind]
        one.resource_version = max(one.resource_version, version)
        failed = one.error is not None
        one.contact(time.monotonic())
        if failed:
            self._on_error()

    def fail(self, kind: Kind, error: KubeError) -> None:
        """Record that the kind cannot be listed or watched now."""
        one = self.informers[kind]
        changed = str(one.error) != str(error)
        one.fail(error)
        if changed:
            self._on_error()

    def lose(self, kind: Kind, error: KubeError) -> None:
        """Record that an object of the kind was missed: the kind is unknown until it is listed again."""
        self.informers[kind].unsync()
        self.fail(kind, error)
