"""The partitions that the coordinator has assigned, with their readers, and the fetching of their records."""

from collections.abc import Iterable, Sequence

from sluicegate_consumer.brokers import Brokers
from sluicegate_consumer.config import Settings
from sluicegate_consumer.errors import ProtocolError
from sluicegate_consumer.fetching import Fetching
from sluicegate_consumer.reading import PartitionReader
from sluicegate_consumer.record import TopicPartition
from sluicegate_consumer.streams import Flow, StreamQueue
from sluicegate_consumer.wire.push import PartitionOffset

_PLACES = {"earliest": -2, "latest": -1}


class Assignment:
    """The assigned partitions of a consumer, each with its reader.

    `Membership` replaces and revokes the assignment when the coordinator calls.
    """

    def __init__(self, queues: Sequence[StreamQueue], flow: Flow, brokers: Brokers, settings: Settings) -> None:
        """Readers put records into `queues`, one for each stream. `flow` determines whether they are delivered."""
        self._queues = queues
        self._flow = flow
        self._brokers = brokers
        self._settings = settings
        self._readers: dict[TopicPartition, PartitionReader] = {}
        self._fetching: Fetching | None = None
        self._reset_from: dict[TopicPartition, int] = {}
        """Offsets that were out of range: a partition assigned at such an offset begins as `auto_offset_reset` says."""

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        return frozenset(self._readers)

    @property
    def positions(self) -> Sequence[PartitionOffset]:
        """Return the positions of all assigned partitions."""
        return [PartitionOffset(*tp, reader.told) for tp, reader in self._readers.items()]

    def replace(self, streams: Iterable[tuple[int, Iterable[PartitionOffset]]]) -> None:
        """Revoke all partitions, and read the partitions of `streams`, by the stream's number. Raises ProtocolError."""
        self.revoke()
        for number, parts in streams:
            if number >= len(self._queues):
                raise ProtocolError(f"stream {number} was assigned, but there are {len(self._queues)} streams")
            for part in parts:
                self._add(part, number)

    def _add(self, part: PartitionOffset, stream: int) -> None:
        tp = TopicPartition(part.topic, part.partition)
        if self._reset_from.get(tp) == part.offset:
            # Reset again if necessary: the offset found before may not have been reported before the partition was
            # revoked.
            part = part._replace(offset=_PLACES[self._settings.auto_offset_reset])
        else:
            self._reset_from.pop(tp, None)
        self._readers[tp] = PartitionReader(part, stream, self._settings.unpacked_bytes_max, self._has_room)

    def fetch(self) -> None:
        """Start to fetch all assigned partitions."""
        readers = list(self._readers.values())
        self._fetching = Fetching(readers, self._brokers, self._settings, self._deliver, self._flow.fail)
        self._fetching.start()

    def stop_fetching(self) -> None:
        """Stop fetching the partitions and discard undelivered records. Delivered ones can still be acknowledged."""
        if self._fetching is not None:
            self._fetching.stop()
            self._fetching = None

    def stop_acknowledging(self) -> None:
        """Accept no acknowledgement of records from now on. The positions stay."""
        for reader in self._readers.values():
            reader.revoke()

    def revoke(self) -> None:
        """Forget all assigned partitions. None of their records can be acknowledged any more."""
        self.stop_acknowledging()
        self._readers.clear()

    def note_out_of_range(self) -> int:
        """Record the partitions whose offsets are outside of their logs; return how many there are.

        Their offsets are reset when the partitions are assigned again.
        """
        found = [reader for reader in self._readers.values() if reader.out_of_range]
        self._reset_from.update((reader.tp, reader.fetch_offset) for reader in found)
        return len(found)

    def _deliver(self, reader: PartitionReader) -> None:
        self._queues[reader.stream].put(reader)
        self._flow.wake()

    def _has_room(self) -> None:
        if self._fetching is not None:
            self._fetching.wake()
