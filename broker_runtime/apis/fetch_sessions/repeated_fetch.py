"""Fetches of many partitions without a session, such as librdkafka's: each request names all partitions. Pure.

Nearly all partitions of such a request equal those of the previous one, byte for byte, perhaps in another order. So the
last request of each connection is kept, and only the partitions that differ are parsed. Apart from that it works like a
session: the other partitions watch their logs. The answer contains all partitions, and the parts of unchanged ones are
already packed.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Set
from itertools import islice
from uuid import UUID

from broker_runtime.apis.fetch_sessions.fetch_partition import AskedPartition, FetchPartition
from broker_runtime.apis.fetch_sessions.fetch_session import FetchSession
from broker_runtime.slicing.steps import Steps, at_once, each, in_order

PARTITIONS_MIN = 32
"""Minimum number of partitions for a repeated fetch. Parsing fewer costs less than finding the differences."""

_LOOKED_UP_IN_A_STEP = 500
_UNUSED_S = 10.0
"""Time without a request after which a client that waits for no answer counts as disconnected or busy."""

PartitionBytes = tuple[bytes]
"""The unparsed bytes of one partition in a request."""
ClientAddress = tuple[str, int]
"""The client's address and port."""
ReadPartition = Callable[[str | UUID, bytes], AskedPartition]


class FetchedTopics:
    """The topics of a fetch with their partitions. Each pair is made when it is read: all at once would block the loop.

    Later changes of topics do not show.
    """

    __slots__ = ("_known", "_names")

    def __init__(self, chunks: Mapping[str | UUID, dict[PartitionBytes, FetchPartition]]) -> None:
        self._names = list(chunks)
        self._known = list(chunks.values())

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[tuple[str | UUID, Collection[FetchPartition]]]:
        return zip(self._names, map(dict.values, self._known), strict=True)


class RepeatedFetch(FetchSession):
    """The last Fetch without a session of one connection, kept so that only changed partitions are read again.

    The packed parts of answers are valid only for the same `form`.
    """

    __slots__ = ("_chunks", "form")

    def __init__(self, form: tuple[int, bool], now_s: float) -> None:
        super().__init__((), now_s)
        self.form = form
        self._chunks: dict[str | UUID, dict[PartitionBytes, FetchPartition]] = {}
        self.watch_quiet()

    def update(self, asked: Mapping[str | UUID, Set[PartitionBytes]], read: ReadPartition, now_s: float) -> Steps[bool]:
        """Update the kept fetch's partitions with those of a new request.

        Return False if the request names a partition twice, and cannot be used.
        """
        self.asked_s = now_s
        for topic in self._chunks.keys() - asked.keys():
            yield from self._forget(self._chunks.pop(topic).values())
            yield
        for topic, chunks in asked.items():
            known = self._chunks.setdefault(topic, {})
            new = yield from _not_in(known, chunks)
            if new or len(known) != len(chunks):
                added = yield from each(
                    (yield from in_order(new)),
                    lambda chunk, topic=topic: (chunk, read(topic, *chunk)),  # type: ignore[misc]
                )
                yield from self._replace(known, (yield from _not_in(chunks, list(known))), added)
            yield
        return len(self.partitions) == sum(map(len, asked.values()))

    def _replace(
        self,
        known: dict[PartitionBytes, FetchPartition],
        gone: Iterable[PartitionBytes],
        new: Collection[tuple[PartitionBytes, AskedPartition]],
    ) -> Steps[None]:
        before = [known.pop(chunk) for chunk in gone]
        renewed = set()
        for chunk, asked in new:
            self.add((asked,))
            known[chunk] = kept = self.partitions[asked[:2]]
            renewed.add(kept)
            yield
        yield from self._forget(part for part in before if part not in renewed)

    def closing(self) -> Steps[None]:
        yield from super().closing()
        while self._chunks:
            _, known = self._chunks.popitem()
            while known:
                for _ in range(min(len(known), _LOOKED_UP_IN_A_STEP)):
                    known.popitem()
                yield
            yield

    @property
    def topics(self) -> "FetchedTopics":
        """Return the topics and their partitions as they are now."""
        return FetchedTopics(self._chunks)

    def _forget(self, parts: Iterable[FetchPartition]) -> Steps[None]:
        for part in parts:
            self._drop((part.topic, part.index))
            yield


def _not_in(known: Container[PartitionBytes], chunks: Iterable[PartitionBytes]) -> Steps[list[PartitionBytes]]:
    found: list[PartitionBytes] = []
    rest = iter(chunks)
    while some := list(islice(rest, _LOOKED_UP_IN_A_STEP)):
        found += [chunk for chunk in some if chunk not in known]
        yield
    return found


class RepeatedFetches:
    """The repeated fetches by client address, with at most `partitions_max` partitions together.

    Only fetches without a recent request are evicted. If a new client could evict any other, too many clients would
    evict each other in a circle. Each time all partitions would be parsed again, and waiting clients would get an empty
    answer and retry at once.

    The end of a connection is not observed while none of its requests waits. Its fetch is evicted later, as unused.
    """

    def __init__(self, partitions_max: int, do: Callable[[Steps[None]], object] = at_once) -> None:
        """`do` runs the steps that close an evicted fetch."""
        self._do = do
        self._partitions_max = partitions_max
        self._partitions = 0
        self._of: dict[ClientAddress, tuple[RepeatedFetch, int]] = {}
        """Fetches and their numbers of partitions, in the order of their last request."""

    def take(self, client: ClientAddress, form: tuple[int, bool], size: int, now_s: float) -> RepeatedFetch | None:
        """Remove and return the stored fetch of the client, or a new one. The caller stores it again by `keep`.

        Returns None if there is no room for `size` partitions.
        """
        kept, kept_size = self._of.pop(client, (None, 0))
        self._partitions -= kept_size
        if kept is not None and (kept.form != form or kept.waits or kept.is_busy or not self._make_room(size, now_s)):
            kept.end_waiting()
            self._do(kept.closing())
            kept = None
        if kept is None and self._make_room(size, now_s):
            kept = RepeatedFetch(form, now_s)
        return kept

    def _make_room(self, size: int, now_s: float) -> bool:
        if self._partitions + size <= self._partitions_max:
            return True
        if size > self._partitions_max:
            return False
        unused = []
        for client, (fetch, _) in self._of.items():
            if now_s - fetch.asked_s < _UNUSED_S:
                break
            if not fetch.waits and not fetch.is_busy:
                unused.append(client)
        for client in unused:
            self.forget(client)
        return self._partitions + size <= self._partitions_max

    def keep(self, client: ClientAddress, fetch: RepeatedFetch) -> None:
        size = len(fetch.partitions)
        self._of[client] = (fetch, size)
        self._partitions += size

    def forget(self, client: ClientAddress, only: RepeatedFetch | None = None) -> bool:
        """Close the fetch that is kept for this client, or close `only`. Return whether a fetch was closed."""
        kept, size = self._of.get(client, (None, 0))
        if kept is None or only not in (None, kept):
            return False
        del self._of[client]
        self._partitions -= size
        kept.end_waiting()
        self._do(kept.closing())
        return True
