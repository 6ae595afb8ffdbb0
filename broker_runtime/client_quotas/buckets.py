"""The buckets of one kind of quota, a limited number of them. Pure.

A client chooses its client id, so it could create a bucket with each request. At the limit, a new caller takes the
place of a bucket that is as good as new: nothing in it affects its next request. If there is none, all further callers
share one bucket. Each of them is then measured against its own quota, together with the others.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from broker_runtime.client_quotas.ladder import Bucket

_EXAMINED = 16
"""Buckets that each new bucket examines, round robin: at most so many more are removed than created."""
EXPIRES_MS = 3_600_000
"""Time in milliseconds without a request after which a bucket is removed, as in Apache Kafka."""


class BucketMeter(Protocol):
    """The content of a bucket of a client quota."""

    @property
    def last_ms(self) -> int:
        """Return the time of the last record, in milliseconds."""
        ...

    def is_as_new(self, now_ms: int, /) -> bool:
        """Return whether the next record has the same effect as in a new bucket."""
        ...


M = TypeVar("M", bound=BucketMeter)


class Buckets(Generic[M]):
    """The buckets of one client quota: at most `maximum`, and one that all further callers share.

    `new` creates a bucket.
    """

    __slots__ = ("_found", "_maximum", "_new", "_shared", "shared_total")

    def __init__(self, new: Callable[[int], M], maximum: int) -> None:
        self._new = new
        self._maximum = maximum
        self._found: OrderedDict[Bucket, M] = OrderedDict()
        self._shared: M | None = None
        self.shared_total = 0
        """Number of requests that used the shared bucket."""

    def __len__(self) -> int:
        return len(self._found)

    def get(self, name: Bucket) -> M | None:
        """Return the bucket of this name; None if it does not exist."""
        return self._found.get(name)

    def used(self, name: Bucket) -> M | None:
        """Return the bucket that `at` would return, without creating it; None if `at` would create one."""
        found = self._found.get(name)
        return self._shared if found is None and len(self._found) >= self._maximum else found

    def is_shared(self, meter: M) -> bool:
        """Return whether `meter` is the bucket that callers share because there are too many."""
        return meter is self._shared

    def at(self, name: Bucket, now_ms: int) -> M:
        """Return the meter that a client quota has for this client.

        An unknown name gets a new bucket, or the shared one if there are too many.
        """
        found = self._found.get(name)
        return self._added(name, now_ms) if found is None else found

    def _added(self, name: Bucket, now_ms: int) -> M:
        self._make_room(now_ms)
        if len(self._found) >= self._maximum:
            self.shared_total += 1
            if self._shared is None:
                self._shared = self._new(now_ms)
            return self._shared
        added = self._found[name] = self._new(now_ms)
        return added

    def _make_room(self, now_ms: int) -> None:
        found = self._found
        is_full = len(found) >= self._maximum
        for _ in range(min(_EXAMINED, len(found))):
            name = next(iter(found))
            meter = found[name]
            if now_ms - meter.last_ms >= EXPIRES_MS or (is_full and meter.is_as_new(now_ms)):
                del found[name]
            else:
                found.move_to_end(name)
