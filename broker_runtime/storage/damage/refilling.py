"""Fills the index of aborted transactions of a segment from the batches of the log, while the log is in use.

Until that is done, clients that read committed records from the segment get an error: the index is damaged, or the
segment was mended and has markers that nobody has replayed. In the second case a start may also have missed the end of
a transaction, so the states of the producers are replaced by those that the whole log gives.

It starts from a snapshot of producers, and reads the segments in slices in a thread. Only the newest segment is read on
the event loop, right after it has begun.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from broker_runtime.storage.disk.disk_slices import DiskSlices, Steps, Work
from broker_runtime.storage.disk.filesystem import File, FileSystem, read_file
from broker_runtime.storage.disk.place import LogPlace
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.records.producers import ProducerStates
from broker_runtime.storage.records.transactions import NO_OFFSET, Ended
from broker_runtime.storage.recovery.snapshots import SUFFIX, forget_snapshots, replay_batch, snapshot_offsets
from broker_runtime.storage.segment.damaged_ranges import DamagedRange, stretches
from broker_runtime.storage.segment.segment import Segment
from broker_runtime.storage.segment.segment_indexes import begin_aborted, segment_path
from broker_runtime.storage.segment.stored_batches import headers
from kafka_bytes.batches import CONTROL, TRANSACTIONAL, Header


@dataclass(slots=True)
class _Source:
    """The batches of a segment, and what a replay finds in them."""

    file: File
    path: Path
    size: int
    damage: tuple[DamagedRange, ...]
    aborted: list[Ended] = field(default_factory=list)
    has_transactions: bool = False

    def headers(self) -> Iterator[tuple[int, Header]]:
        for part in stretches(self.damage, 0, self.size):
            yield from headers(self.file, self.path, *part)


class Refilling:
    """The refilling of one sealed segment's index. `replaces_states` is set if a start may have missed markers in it.

    The files of the log are not changed before the entries are complete.
    """

    def __init__(self, log: Log, segment: Segment, *, replaces_states: bool) -> None:
        self._log = log
        self._segment = segment
        self._replaces_states = replaces_states
        self._cuts = log.files.syncs.cuts
        self._states = ProducerStates()

    def run(self) -> Generator[Work, None, None]:
        """Fill the index; yield work for a thread. Raises OSError and KafkaError.

        It ends early if the log was cut or the segment was replaced meanwhile.
        """
        log, wanted = self._log, self._segment
        number = log.segments.index(wanted)
        sources = [_source(segment) for segment in log.segments[: number + 1]]
        yield from self._in_slices(self._replay_from_snapshot(sources, log.place, wanted.base_offset))
        if self._is_over:
            return
        yield from self._stored([(wanted, sources[-1])])
        if self._replaces_states and sources[-1].has_transactions and not self._is_over:
            yield from self._replace_states(number + 1)

    def _in_slices(self, steps: Steps) -> DiskSlices:
        return DiskSlices(steps, self._log.place.clock.monotonic)

    @property
    def _is_over(self) -> bool:
        log = self._log
        return log.failure is not None or log.files.syncs.cuts != self._cuts or self._segment not in log.segments

    def _replay_from_snapshot(self, sources: list[_Source], place: LogPlace, base_offset: int) -> Steps:
        """Replay the sources from the newest usable snapshot at or below `base_offset` on; in a thread."""
        from_offset = _load_before(place.fs, place.folder, base_offset, self._states)
        yield 0
        yield from self._replay(sources, from_offset)

    def _replay(self, sources: list[_Source], from_offset: int = -1) -> Steps:
        transactions, now_ms = self._states.transactions, self._log.place.clock.wall_ms()
        for source in sources:
            for position, header in source.headers():
                if header.base_offset >= from_offset:
                    ended = replay_batch(source.file, position, header, self._states, now_ms)
                    source.has_transactions |= header.attributes & (CONTROL | TRANSACTIONAL) != 0
                    if ended is not None:
                        source.aborted.append(ended)
                    transactions.settle(self._log.high_watermark)
                    yield header.size

    def _replace_states(self, number: int) -> Generator[Work, None, None]:
        """Replay the segments from `number` on, and replace the states of the log's producers.

        The transactions that end there may have begun in the mended segment, so the indexes are filled again, too.
        """
        log = self._log
        # What is appended meanwhile goes into a segment of its own. Newer snapshots have the states that are replaced.
        log.files.roll()
        forget_snapshots(log.place.fs, log.place.folder, self._segment.base_offset)
        log.files.snapshot_offset = NO_OFFSET
        sealed = [(segment, _source(segment)) for segment in log.segments[number:-1]]
        yield from self._in_slices(self._replay([source for _, source in sealed]))
        if self._is_over:
            return
        known = [segment for segment, _ in sealed]
        newest = [(each, _source(each)) for each in log.segments[number:] if each not in known]
        for _ in self._replay([source for _, source in newest]):
            # On the event loop: nothing may be appended before the states are in place.
            pass
        high_watermark = log.high_watermark
        log.producers.take_over(self._states)
        log.transactions.settle(high_watermark)
        yield from self._stored([*sealed, *newest])
        log.wake_waiting()

    def _stored(self, replayed: list[tuple[Segment, _Source]]) -> Generator[Work, None, None]:
        """Store the aborted transactions of these segments, and yield the syncs of their files."""
        log = self._log
        for segment, source in replayed:
            before, index = segment.indexes.aborted, begin_aborted(segment.indexes)
            for ended in source.aborted:
                index.append(ended)
            if source.aborted or before is not None:
                index.rewrite()
            if not source.aborted:
                segment.indexes.aborted = None
                continue
            log.files.has_aborted = True
            log.files.syncs.names_made += 1
        for segment, _ in replayed:
            file = None if segment.indexes.aborted is None else segment.indexes.aborted.take_unsynced()
            if file is not None:
                yield file.fsync


def _source(segment: Segment) -> _Source:
    return _Source(segment.file, segment.path, segment.size, segment.damage)


def _load_before(fs: FileSystem, folder: Path, offset: int, states: ProducerStates) -> int:
    """Load the newest usable snapshot at or below `offset`, and return its offset; -1 without one."""
    for each in reversed(snapshot_offsets(fs, folder)):
        if each <= offset:
            try:
                states.decode(read_file(fs, segment_path(folder, each, SUFFIX)))
            except (ValueError, FileNotFoundError):
                continue
            return each
    return -1
