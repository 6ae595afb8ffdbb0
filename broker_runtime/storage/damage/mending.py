"""Puts batches into the damaged ranges of a segment. A new file with them replaces the old one.

The batches come from another replica; if a loss is accepted, one without records takes their place. Each has the right
checksum, fits in its range, and has a leader epoch that fits between the batches around it. Batches without records
take the offsets that the source has removed, so segments follow each other without a gap (decision 32). A range that no
source supplies stays damaged: its bytes are copied unchanged. A crash at any moment leaves the old segment or the new
one (`swap`).
"""

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import NamedTuple

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.damage.refilling import Refilling
from broker_runtime.storage.disk.disk import done_by
from broker_runtime.storage.disk.disk_slices import DiskSlices, Steps, Work
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log.replacing import ReplacingStoppedError, put_in_place, tidy
from broker_runtime.storage.log.swap import Swap
from broker_runtime.storage.records.leaders_batches import leaders_batches
from broker_runtime.storage.recovery.recovery import is_damage
from broker_runtime.storage.recovery.stand_in import UnreadableFile, mark_lost
from broker_runtime.storage.segment.batch_writer import BatchWriter
from broker_runtime.storage.segment.damaged_ranges import DamagedRange
from broker_runtime.storage.segment.index import RELATIVE_OFFSET_MAX
from broker_runtime.storage.segment.segment import Segment
from broker_runtime.storage.segment.segment_indexes import keep_in_memory
from broker_runtime.storage.segment.stored_batches import DamagedFileError, batches
from kafka_bytes.batches import empty_batch, parse_header

_IO_BYTES = 512 << 10


class MissingBatches(NamedTuple):
    """A request for the batches from `offset` up to `next_offset`. The first of these batches are enough."""

    offset: int
    next_offset: int


class Supplied(NamedTuple):
    """Record batches that replace damaged ones, whole and in order. The source has no others below `covered_to`.

    `may_have_gaps` allows missing offsets between them.
    """

    records: bytes
    covered_to: int
    may_have_gaps: bool


class NotSuppliedError(Exception):
    """No source has the record batches that would replace damaged ones. Its text is the reason."""


class Mending:
    """The mending of one damaged segment of a log, or of a part of its damage.

    Readers see the result only when it is complete.
    """

    def __init__(self, log: Log, segment: Segment, monotonic: Callable[[], float]) -> None:
        self._log = log
        self._segment = segment
        self._monotonic = monotonic
        self._cuts = log.files.syncs.cuts
        self._damage = segment.damage
        self._range = segment.damage[0]
        self._stays: list[DamagedRange] = []
        """The damaged ranges of the new segment."""
        self._missing: list[str] = []
        """Why no source supplies the batches, one sentence for each range that stays damaged."""

    def run(self) -> Generator[Work | MissingBatches, Supplied | None, int]:
        """Mend the segment; yield work for a thread, and requests for `MissingBatches`.

        The caller answers a request with `Supplied` or a NotSuppliedError. Returns the segment's end offset. Raises
        ReplacingStoppedError, OSError, and KafkaError if the supplied batches do not fit. Raises NotSuppliedError if a
        part of the damage stays; the other part is mended then.
        """
        log, old = self._log, self._segment
        base = old.base_offset
        if not log.files.swaps.claim(base):
            raise ReplacingStoppedError(f"{old.path} is being rewritten; try again later")
        swap: Swap | None = None
        try:
            number, supplied = yield from self._first_supplied()
            swap = Swap(log.place, log.segments, [old])
            yield from self._written(swap, number, supplied)
            # Readers of committed records wait for the index of aborted transactions.
            log.files.has_aborted = True
            yield from put_in_place(log, swap, self._check, None)
            yield from Refilling(log, swap.new, replaces_states=True).run()
        finally:
            if swap is not None:
                tidy(log, swap)
            log.files.swaps.release(base)
        if self._missing:
            raise NotSuppliedError(self._missing[0])
        return swap.new.next_offset

    def _first_supplied(self) -> Generator[MissingBatches, Supplied | None, tuple[int, Supplied]]:
        """Return the number of the first range for which a source has a beginning, and that beginning.

        Raises NotSuppliedError if there is none: then nothing is written.
        """
        for number, damaged in enumerate(self._damage):
            self._range = damaged
            try:
                return number, (yield from self._asked(damaged.first_offset))
            except NotSuppliedError as error:
                self._missing.append(str(error))
        raise NotSuppliedError(self._missing[0])

    def _asked(self, expected: int) -> Generator[MissingBatches, Supplied | None, Supplied]:
        begin, end = max(expected, self._log.log_start_offset), self._range.next_offset
        if begin >= end:
            return Supplied(b"", end, True)
        supplied = yield MissingBatches(begin, end)
        assert supplied is not None
        self._check()
        return supplied

    def _written(
        self, swap: Swap, number: int, supplied: Supplied
    ) -> Generator[Work | MissingBatches, Supplied | None, None]:
        """Write the new segment. `supplied` is for the range `number`; no source has the ranges before it."""
        writer = BatchWriter(swap.new, _IO_BYTES, self._log.config.index_interval_bytes)
        position = 0
        for count, damaged in enumerate(self._damage):
            self._range = damaged
            yield from self._copied(writer, position, damaged.position)
            filled_to = damaged.first_offset
            if count >= number:
                filled_to = yield from self._filled(writer, swap.new, supplied if count == number else None)
            if filled_to < self._range.next_offset:
                yield partial(self._leave_damaged, writer, swap.new, filled_to)
            position = damaged.end
        yield from self._copied(writer, position, self._segment.size)
        if self._stays:
            swap.new.take_damage(tuple(self._stays))
            keep_in_memory(swap.new.indexes)
        yield partial(_complete, writer, swap)

    def _check(self) -> None:
        log, old = self._log, self._segment
        is_there = any(segment is old for segment in log.segments)
        if log.failure is not None or log.files.syncs.cuts != self._cuts or not is_there or old.damage != self._damage:
            raise ReplacingStoppedError(log.failure or f"{log.place} was truncated, or the segment has expired")

    def _copied(self, writer: BatchWriter, start: int, stop: int) -> Generator[Work, None, None]:
        for time_slice in DiskSlices(_copy(writer, self._segment, start, stop), self._monotonic):
            try:
                yield time_slice
            except DamagedFileError:
                self._log.recheck(self._segment)
                raise
            except OSError as error:
                if is_damage(error):
                    self._log.recheck(self._segment)
                raise
            self._check()

    def _filled(
        self, writer: BatchWriter, new: Segment, supplied: Supplied | None
    ) -> Generator[Work | MissingBatches, Supplied | None, int]:
        """Fill the range, and return up to which offset. `supplied` is its beginning if that was requested already."""
        expected = self._range.first_offset
        while expected < self._range.next_offset:
            begin = max(expected, self._log.log_start_offset)
            if supplied is None:
                try:
                    supplied = yield from self._asked(expected)
                except NotSuppliedError as error:
                    self._missing.append(str(error))
                    if self._is_lost:
                        self._split(expected)
                    return expected
            yield partial(self._put, writer, expected, begin, supplied)
            self._check()
            expected, supplied = supplied.covered_to, None
            is_full = new.size >= self._log.config.segment_bytes
            if self._is_lost and is_full and expected < self._range.next_offset:
                # More was lost than a segment may hold.
                self._split(expected)
        return expected

    @property
    def _is_lost(self) -> bool:
        """Whether nothing of the file is left, so that the unmended part can become a segment of its own."""
        return not self._segment.size and not isinstance(self._segment.file, UnreadableFile)

    def _leave_damaged(self, writer: BatchWriter, new: Segment, first: int) -> None:
        """Copy the bytes of the range, so that the next start finds it again; in a thread.

        Raises OSError, and NotSuppliedError if they cannot be read.
        """
        old, damaged = self._segment, self._range
        if isinstance(old.file, UnreadableFile):
            # The file may have records that no other replica has.
            raise NotSuppliedError(self._missing[-1])
        position = new.size
        for at in range(damaged.position, damaged.end, _IO_BYTES):
            size = min(_IO_BYTES, damaged.end - at)
            raw = old.file.pread(size, at)
            if len(raw) < size:
                raise DamagedFileError(old.path, at)
            writer.put_raw(raw)
        new.next_offset = damaged.next_offset
        self._stays.append(damaged._replace(first_offset=first, position=position, end=new.size))

    def _put(self, writer: BatchWriter, expected: int, begin: int, supplied: Supplied) -> None:
        """Write the supplied batches, in a thread. The source may lack the offsets from `expected` up to `begin`."""
        damaged, epochs = self._range, self._log.files.epochs
        most = epochs.at(damaged.next_offset)
        records = memoryview(supplied.records)
        at, progress = 0, expected
        for header in leaders_batches(records, expected, epochs.at(expected - 1)):
            # Epochs may have been read from the remaining batches only: then one seems to begin later than it did.
            is_of_epoch = epochs.at(header.base_offset) <= header.leader_epoch and not header.leader_epoch > most >= 0
            if header.last_offset >= damaged.next_offset or not is_of_epoch:
                raise _misfit(f"a batch of offsets up to {header.last_offset}, of epoch {header.leader_epoch}", damaged)
            self._leave_out(writer, progress, header.base_offset, begin, may_be_empty=supplied.may_have_gaps)
            writer.put(header, records[at : at + header.size])
            at, progress = at + header.size, header.last_offset + 1
        if at != len(records) or not expected < supplied.covered_to <= damaged.next_offset:
            raise _misfit(f"{len(records)} bytes that end at offset {supplied.covered_to}", damaged)
        self._leave_out(writer, progress, supplied.covered_to, begin, may_be_empty=supplied.may_have_gaps)

    def _leave_out(self, writer: BatchWriter, first: int, next_offset: int, begin: int, *, may_be_empty: bool) -> None:
        """Write a batch without records for the offsets from `first` up to `next_offset`."""
        if first >= next_offset:
            return
        base = self._segment.base_offset
        if not (may_be_empty or next_offset <= begin) or next_offset - 1 - base > RELATIVE_OFFSET_MAX:
            raise _misfit(f"nothing for offsets {first} to {next_offset - 1}", self._range)
        epochs = self._log.files.epochs
        epoch = epochs.at(first)
        batch = empty_batch(first, next_offset, epoch if epoch >= 0 else epochs.at(self._range.next_offset))
        writer.put(parse_header(batch), batch)

    def _split(self, at: int) -> None:
        """Make the rest of the range a damaged segment of its own. Raises OSError."""
        log, old, damaged = self._log, self._segment, self._range
        rest = Segment(old.fs, log.place.folder, at, old.created_ms)
        rest.file = old.fs.open(rest.path, create=True)
        mark_lost(rest, damaged._replace(first_offset=at))
        log.files.syncs.names_made += 1
        self._range = damaged._replace(next_offset=at)
        self._damage = (self._range,)
        old.take_damage(self._damage)
        old.next_offset = at
        log.segments.insert(log.segments.index(old) + 1, rest)


def _copy(writer: BatchWriter, segment: Segment, start: int, stop: int) -> Steps:
    offsets = segment.base_offset, segment.next_offset
    for header, batch in batches(segment.file, segment.path, start, stop, _IO_BYTES, offsets):
        yield header.size + writer.put(header, batch)


def _complete(writer: BatchWriter, swap: Swap) -> None:
    writer.flush()
    swap.new.index_time()
    swap.sync()


def _misfit(what: str, damaged: DamagedRange) -> KafkaError:
    text = (
        f"another replica supplied {what}, but the damaged range is offsets {damaged.first_offset} to "
        f"{damaged.next_offset - 1}"
    )
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, text)


def nothing_for(wanted: MissingBatches) -> Supplied:
    """Return the answer to `MissingBatches` for records whose loss is accepted: nothing."""
    return Supplied(b"", wanted.next_offset, may_have_gaps=True)


async def mend(log: Log, segment: Segment, supply: Callable[[MissingBatches], Awaitable[Supplied]]) -> int:
    """Mend the segment with the batches that `supply` returns, and return the segment's end offset.

    Raises the errors of `Mending.run` and `supply`.
    """
    works = Mending(log, segment, log.place.clock.monotonic).run()
    try:
        step = next(works)
        while True:
            answer = None
            try:
                if isinstance(step, MissingBatches):
                    answer = await supply(step)
                else:
                    await done_by(log.place.disk, step)
            except Exception as error:  # noqa: BLE001 - the generator raises what it does not handle
                step = works.throw(error)
            else:
                step = works.send(answer)
    except StopIteration as done:
        end: int = done.value
        return end
    finally:
        works.close()


def accept_losses(log: Log) -> None:
    """Give up the records of all damaged ranges of a log that is not in use yet. Raises OSError and KafkaError."""
    for segment in [segment for segment in log.segments if segment.damage]:
        works = Mending(log, segment, log.place.clock.monotonic).run()
        try:
            step = next(works)
            while True:
                if isinstance(step, MissingBatches):
                    step = works.send(nothing_for(step))
                else:
                    step()
                    step = works.send(None)
        except StopIteration:
            continue
        finally:
            works.close()
