"""What all kinds of client quotas share: the limits of callers, the buckets, and the figures for metrics. Pure."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from broker_runtime.client_quotas.buckets import BucketMeter, Buckets
from broker_runtime.client_quotas.ladder import Bucket, Caller, Entities, Limit, limit_of

SHOWN_MAX = 100
"""Maximum number of buckets in metrics: the most recently throttled. Client ids must not flood the metrics."""


NAME_LENGTH_MAX = 255
"""Maximum number of characters of a user or client id in a bucket.

A client id may have 32,767, and clients choose it.
"""


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows over which a rate is measured, and the maximum number of buckets."""

    num: int
    size_ms: int
    buckets_max: int


class CountedMeter(BucketMeter, Protocol):
    """A meter of a client quota that adds up the times for which it has throttled clients."""

    throttle_ms_total: int


M = TypeVar("M", bound=CountedMeter)


class QuotaFigures(NamedTuple):
    """Counts of one kind of quota since the process started; the time is in milliseconds."""

    throttled_total: int
    throttle_ms_total: int
    buckets: int
    shared_total: int


class ManagedQuota(Generic[M]):
    """The buckets of one quota key, and the cached limits of callers. Limits are cached until `changed` is called."""

    def __init__(
        self, key: str, windows: Windows, entities: Callable[[], Entities], new: Callable[[int], M], scale: float = 1
    ) -> None:
        """`entities` returns all quotas of the metadata; `scale` converts the value of a quota to units a second."""
        self.key = key
        self.windows = windows
        self.buckets: Buckets[M] = Buckets(new, windows.buckets_max)
        self._entities = entities
        self._scale = scale
        self._limits: dict[Caller, Limit | None] = {}
        self._shown: OrderedDict[Bucket, float] = OrderedDict()
        """Quotas of the buckets that were throttled most recently, the last one at the end."""
        self._throttled_total = self._throttle_ms_total = 0

    def changed(self) -> None:
        """Adopt the current quotas of the metadata. The contents of buckets remain."""
        self._limits.clear()

    def limit(self, caller: Caller) -> Limit | None:
        """Return the limit of a caller, in units a second; None for a caller without a limit."""
        try:
            return self._limits[caller]
        except KeyError:
            found = self.limit_now(caller)
            if not _is_long(caller):
                if len(self._limits) >= self.windows.buckets_max:
                    self._limits.clear()
                self._limits[caller] = found
            return found

    def limit_now(self, caller: Caller) -> Limit | None:
        """Return the limit of a caller without the cache, so that `changed` need not be called before."""
        found = limit_of(caller, self.key, self._entities())
        if found is None:
            return None
        user, client_id = found.bucket
        # Callers whose names begin with the same long text share a bucket.
        return Limit((user[:NAME_LENGTH_MAX], client_id[:NAME_LENGTH_MAX]), found.quota * self._scale)

    def count(self, meter: M, limit: Limit, throttle_ms: int) -> None:
        """Count the throttle time that a caller of this bucket gets."""
        meter.throttle_ms_total += throttle_ms
        self._throttled_total += 1
        self._throttle_ms_total += throttle_ms
        self._shown[limit.bucket] = limit.quota
        self._shown.move_to_end(limit.bucket)
        if len(self._shown) > SHOWN_MAX:
            self._shown.popitem(last=False)

    @property
    def figures(self) -> QuotaFigures:
        return QuotaFigures(
            self._throttled_total, self._throttle_ms_total, len(self.buckets), self.buckets.shared_total
        )

    def shown(self) -> Iterator[tuple[Bucket, float, M]]:
        """Yield the buckets that metrics show, each with its quota in units a second."""
        for name, quota in list(self._shown.items()):
            meter = self.buckets.get(name)
            if meter is None:
                # The bucket has expired, or its callers used the shared one.
                del self._shown[name]
            else:
                yield name, quota, meter


def _is_long(caller: Caller) -> bool:
    return len(caller[0]) > NAME_LENGTH_MAX or len(caller[1]) > NAME_LENGTH_MAX
