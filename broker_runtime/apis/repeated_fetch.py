"""Consumers of many partitions that want no fetch session, as librdkafka: each request names all of them. Pure.

Nearly all of such a request is what the one before said, byte for byte, perhaps in another order. So what the last one
said is kept for each connection, and only those partitions are read that differ. From there on it is a session: the
others watch their logs, and their part of the answer, which names all of them, is packed already.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Set
from itertools import islice
from uuid import UUID

from broker_runtime.apis.fetch_partition import AskedPartition, FetchPartition
from broker_runtime.apis.fetch_session import FetchSession
from broker_runtime.steps import Steps, at_once, each, in_order

PARTITIONS_MIN = 32
"""Where fewer are asked for, reading them costs less than finding out what differs."""

_LOOKED_UP_IN_A_STEP = 500
_UNUSED_S = 10.0
"""Who has not asked for so long, and does not wait for an answer either, has gone or is busy with what it got."""

PartitionBytes = tuple[bytes]
"""What a request says of one partition."""
ClientAddress = tuple[str, int]
"""The address and port of a client's end."""
ReadPartition = Callable[[str | UUID, bytes], AskedPartition]


class RepeatedFetch(FetchSession):
    """What one connection asks for again and again; `form` is what must be the same for answers to be packed so."""

    __slots__ = ("_chunks", "form")

    def __init__(self, form: tuple[int, bool], now_s: float) -> None:
        super().__init__((), now_s)
        self.form = form
        self._chunks: dict[str | UUID, dict[PartitionBytes, FetchPartition]] = {}
        self.watch_quiet()

    def say(self, asked: Mapping[str | UUID, Set[PartitionBytes]], read: ReadPartition, now_s: float) -> Steps[bool]:
        """Take over what a request says; False when it names a partition more than once, and this is of no use."""
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
    def topics(self) -> Collection[tuple[str | UUID, Collection[FetchPartition]]]:
        return [(topic, known.values()) for topic, known in self._chunks.items()]

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
    """By the address of the client's end; at most `partitions_max` partitions in all.

    Only what was not asked for lately makes room. If whoever comes took another's place, more clients than there is
    room for would push each other out in a circle: each time there is everything to be read again, and whoever waits
    is answered with nothing and comes back at once.

    Nobody listens for the end of a connection while none of its requests waits: what was kept for it goes in its turn.
    """

    def __init__(self, partitions_max: int, do: Callable[[Steps[None]], object] = at_once) -> None:
        """`do` runs the steps that close a fetch that is not kept any more."""
        self._do = do
        self._partitions_max = partitions_max
        self._partitions = 0
        self._of: dict[ClientAddress, tuple[RepeatedFetch, int]] = {}
        """In the order in which they were asked for last."""

    def take(self, client: ClientAddress, form: tuple[int, bool], size: int, now_s: float) -> RepeatedFetch | None:
        """What was kept for it, or a new one; to be given back by `keep` once it was brought up to date.

        None when there is no room for as many partitions as `size`.
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
        """Close the fetch that is kept for this client, or only this one. Returns whether a fetch was closed."""
        kept, size = self._of.get(client, (None, 0))
        if kept is None or only not in (None, kept):
            return False
        del self._of[client]
        self._partitions -= size
        kept.end_waiting()
        self._do(kept.closing())
        return True
