"""Consumers of many partitions that want no fetch session, as librdkafka: each request names all of them. Pure.

Nearly all of such a request is what the one before said, byte for byte, perhaps in another order. So what the last one
said is kept for each connection, and only those partitions are read that differ. From there on it is a session: the
others watch their logs, and their part of the answer, which names all of them, is packed already.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Set
from uuid import UUID

from broker_runtime.apis.fetch_partition import AskedPartition, FetchPartition
from broker_runtime.apis.fetch_session import FetchSession

PARTITIONS_MIN = 32
"""Where fewer are asked for, reading them costs less than finding out what differs."""

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

    def say(self, asked: Mapping[str | UUID, Set[PartitionBytes]], read: ReadPartition, now_s: float) -> bool:
        """Take over what a request says; False when it names a partition more than once, and this is of no use."""
        self.asked_s = now_s
        for topic in self._chunks.keys() - asked.keys():
            self._forget(self._chunks.pop(topic).values())
        for topic, chunks in asked.items():
            known = self._chunks.setdefault(topic, {})
            new = chunks - known.keys()
            if new or len(known) != len(chunks):
                self._replace(
                    topic, known, known.keys() - chunks, [(chunk, read(topic, *chunk)) for chunk in sorted(new)]
                )
        return len(self.partitions) == sum(map(len, asked.values()))

    def _replace(
        self,
        topic: str | UUID,
        known: dict[PartitionBytes, FetchPartition],
        gone: Set[PartitionBytes],
        new: Collection[tuple[PartitionBytes, AskedPartition]],
    ) -> None:
        before = [known.pop(chunk) for chunk in gone]
        self.add(asked for _, asked in new)
        renewed = set()
        for chunk, asked in new:
            known[chunk] = kept = self.partitions[asked[:2]]
            renewed.add(kept)
        self._forget(part for part in before if part not in renewed)

    def close(self) -> None:
        super().close()
        self._chunks.clear()

    @property
    def topics(self) -> Collection[tuple[str | UUID, Collection[FetchPartition]]]:
        return [(topic, known.values()) for topic, known in self._chunks.items()]

    def _forget(self, parts: Iterable[FetchPartition]) -> None:
        for part in parts:
            self._drop((part.topic, part.index))


class RepeatedFetches:
    """By the address of the client's end; at most `partitions_max` partitions in all.

    Only what was not asked for lately makes room. If whoever comes took another's place, more clients than there is
    room for would push each other out in a circle: each time there is everything to be read again, and whoever waits
    is answered with nothing and comes back at once.

    Nobody listens for the end of a connection while none of its requests waits: what was kept for it goes in its turn.
    """

    def __init__(self, partitions_max: int) -> None:
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
        if kept is not None and (kept.form != form or kept.waits or not self._make_room(size, now_s)):
            kept.close()
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
            if not fetch.waits:
                unused.append(client)
        for client in unused:
            self.forget(client)
        return self._partitions + size <= self._partitions_max

    def keep(self, client: ClientAddress, fetch: RepeatedFetch) -> None:
        size = len(fetch.partitions)
        self._of[client] = (fetch, size)
        self._partitions += size

    def forget(self, client: ClientAddress) -> None:
        kept = self._of.pop(client, None)
        if kept is not None:
            self._partitions -= kept[1]
            kept[0].close()
