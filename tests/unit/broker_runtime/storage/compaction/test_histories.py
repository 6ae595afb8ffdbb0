"""Random histories of a compacted log on a failing machine: every reader ends with the same values."""

from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker_runtime.config import TopicConfig
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.compaction.cleaning import CleanerSettings
from broker_runtime.storage.records.batch import Record
from kafka_bytes.batches import NO_PRODUCER, ProducerStamp
from tests.support.logs.cleaning import KeyValue, append_keyed, clean, records_of
from tests.support.logs.logs import LogHouse
from tests.support.logs.replica_model import epoch_end

CONFIG = TopicConfig(
    cleanup_policy=("compact",),
    segment_bytes=500,
    index_interval_bytes=80,
    file_delete_delay_ms=0,
    delete_retention_ms=5000,
)
KEYS = (b"a", b"b", b"c", b"a key of more than sixteen bytes")
RECORDS = st.lists(st.tuples(st.sampled_from(KEYS), st.one_of(st.none(), st.integers(0, 40))), min_size=1, max_size=4)
BATCHES = st.lists(st.tuples(RECORDS, st.sampled_from((-1, 1, 2)), st.integers(0, 4)), min_size=1, max_size=6)
Batches = list[tuple[list[tuple[bytes, int | None]], int, int]]
SEALING = st.tuples(st.sampled_from((True, True, False)), st.sampled_from((True, True, False)))
"""The kinds of logs: whether a log is replicated, and whether it is synced."""
SMALL_MAP = CleanerSettings(3 * 208, 1.0, 100, 1 << 20)
USUAL = CleanerSettings(1 << 20, 0.9, 4096, 1 << 20)


class CompactedLogOnFailingMachine(RuleBasedStateMachine):
    """A compacted log on a machine that fails.

    `written` is every record by its offset; records below `high_watermark` are never cut.
    """

    def __init__(self) -> None:
        super().__init__()
        self.house = LogHouse(CONFIG)
        self.written: list[KeyValue] = []
        self.bases: list[int] = []
        self.epochs: list[int] = []
        """Epoch of the leader that wrote each batch."""
        self.high_watermark = self.synced = self.number = 0
        self.sequences: dict[int, tuple[int, int]] = {}
        """By producer id its next sequence and the offset behind its last record."""
        self._opened()

    def _opened(self) -> None:
        log = self.house.log
        log.sole_replica = False
        log.high_watermark = self.high_watermark = min(self.high_watermark, log.log_end_offset)

    @rule(batches=BATCHES)
    def write(self, batches: Batches) -> None:
        for records, producer_id, codec in batches:
            self.append(records, producer_id, codec)

    def append(self, records: list[tuple[bytes, int | None]], producer_id: int, codec: int) -> None:
        self.number += 1
        values = [(key, None if size is None else b"%06d" % self.number + b"v" * size) for key, size in records]
        stamp = NO_PRODUCER
        if producer_id >= 0:
            stamp = ProducerStamp(producer_id, 0, self.sequences.get(producer_id, (0, 0))[0])
        epoch = self.number // 4
        base = append_keyed(self.house, *values, producer=stamp, codec=codec, leader_epoch=epoch)
        self.epochs.append(epoch)
        assert base == len(self.written)
        self.written += values
        self.bases.append(base)
        if producer_id >= 0:
            self.sequences[producer_id] = stamp.base_sequence + len(values), len(self.written)

    def roll(self) -> None:
        if self.house.log.segments[-1].size:
            self.house.log.files.roll()

    def replicate(self) -> None:
        self.house.log.advance_high_watermark(len(self.written))
        self.high_watermark = len(self.written)

    def flush(self) -> None:
        self.house.log.flush()
        self.synced = len(self.written)

    def _seal(self, sealing: tuple[bool, bool]) -> None:
        """Make existing records cleanable, as far as they are replicated and synced."""
        replicated, flushed = sealing
        self.roll()
        if replicated:
            self.replicate()
        if flushed:
            self.flush()

    @rule(what=st.sampled_from(("tick", "kill", "restart", "delete")), share=st.floats(0, 1))
    def happen(self, what: str, share: float) -> None:
        if what == "tick":
            self.house.clock.advance(3)
            at_once(self.house.logs.tick())
            self.synced = max(self.synced, self.house.log.recovery_point)
        elif what == "kill":
            self._crash(None)
        elif what == "restart":
            self.house.restart()
            self.synced = len(self.written)
            self._opened()
        else:
            log = self.house.log
            span = min(self.high_watermark, self.synced) - log.log_start_offset
            log.delete_records(log.log_start_offset + int(max(span, 0) * share / 2))

    @rule(batches=BATCHES, sealing=SEALING, small=st.booleans())
    def clean(self, batches: Batches, sealing: tuple[bool, bool], small: bool) -> None:
        self.write(batches)
        self._seal(sealing)
        clean(self.house, SMALL_MAP if small else USUAL)

    @rule(batches=BATCHES, sealing=SEALING, moment=st.integers(1, 60), seed=st.one_of(st.none(), st.integers(0, 2**32)))
    def crash_while_cleaning(self, batches: Batches, sealing: tuple[bool, bool], moment: int, seed: int | None) -> None:
        """Crash at the change to the disk with that number."""
        self.write(batches)
        self._seal(sealing)
        fs = self.house.fs
        left, copies = [moment], []

        def count() -> None:
            left[0] -= 1
            if left[0] == 0:
                copies.append(fs.copy())

        fs.before_change = count
        clean(self.house)
        fs.before_change = lambda: None
        self.house.fs = copies[0] if copies else fs
        self._crash(seed)

    @rule(
        batches=BATCHES,
        sealing=SEALING,
        work=st.integers(0, 12),
        change=st.sampled_from(("cut", "anew", "append", "roll")),
        seed=st.one_of(st.none(), st.integers(0, 2**32)),
    )
    def change_while_cleaning(
        self, batches: Batches, sealing: tuple[bool, bool], work: int, change: str, seed: int | None
    ) -> None:
        self.write(batches)
        self._seal(sealing)
        changes: dict[str, Callable[[], None]] = {
            "cut": lambda: self.cut(0.0),
            "anew": lambda: self._begin_anew(),
            "append": lambda: self.append([(b"a", 1)], -1, 0),
            "roll": self.roll,
        }
        clean(self.house, before_work=lambda number: changes[change]() if number == work else None)
        self._crash(seed)

    def _begin_anew(self) -> None:
        """Restart the log of a follower whose leader has deleted everything."""
        end = len(self.written)
        if self.high_watermark == end:
            self.house.follower.restart_at(end)
            self.sequences.clear()
            self.synced = end

    @rule(share=st.floats(0, 1))
    def cut(self, share: float) -> None:
        """Cut the log at a batch's beginning at or above the high watermark, as a follower does."""
        free = [base for base in self.bases if base >= self.high_watermark]
        if not free:
            return
        offset = free[int(share * (len(free) - 1))]
        self.house.follower.truncate_to(offset)
        self._forget_from(offset)
        self.synced = min(self.synced, offset)

    def _forget_from(self, offset: int) -> None:
        del self.written[offset:]
        self.bases = [base for base in self.bases if base < offset]
        del self.epochs[len(self.bases) :]
        # Only the log knows the earlier sequences of the producers.
        known = {number: state.batches[-1] for number, state in self.house.log.producers}
        self.sequences = {number: (batch.last_sequence + 1, batch.last_offset + 1) for number, batch in known.items()}

    @rule(seed=st.integers(0, 2**32))
    def lose_power(self, seed: int) -> None:
        self._crash(seed)

    def _crash(self, seed: int | None) -> None:
        if seed is None:
            self.house.kill()
        else:
            self.house.lose_power(seed, keeps_names=seed % 2 == 1)
            end = self.house.log.log_end_offset
            assert self.synced <= end <= len(self.written)
            self._forget_from(end)
            self.synced = end
        self._opened()

    @precondition(lambda self: self.written)
    @rule(share=st.floats(0, 1))
    def follow(self, share: float) -> None:
        """Check a replica that follows from the leader's start.

        It has the same after a crash. A follower of it must not keep more of an epoch than there was of it.
        """
        log, other = self.house.log, LogHouse(CONFIG)
        other.follower.restart_at(log.log_start_offset)
        while (end := other.log.log_end_offset) < log.log_end_offset:
            region = log.read(end, 200 + int(share * 800), min_one=True, up_to=log.log_end_offset)
            assert region is not None
            other.follower.append(memoryview(region.read()))
        other.kill()
        assert other.log.log_end_offset == log.log_end_offset
        assert records_of(other.log) == records_of(log)
        batches = list(zip(self.bases, self.epochs, strict=True))
        for asked in range(self.number // 4 + 2):
            _, end = other.log.end_offset_for_epoch(asked, for_replica=True)
            assert end <= max(epoch_end(batches, asked, len(self.written))[1], log.log_start_offset)

    @invariant()
    def readers_end_with_the_same_values(self) -> None:
        log = self.house.log
        assert log.log_end_offset == len(self.written)
        read = records_of(log)
        assert [record.offset for record in read] == sorted({record.offset for record in read})
        for record in read:
            assert (record.key, record.value) == self.written[record.offset]
        every = max(1, len(self.bases) // 6)
        for start in {log.log_start_offset, *(offset + 1 for offset in self.bases[::every])}:
            if log.log_start_offset <= start < len(self.written):
                left = records_of(log, start)
                assert left == [record for record in read if record.offset >= start]
                assert _values_by_key(left) == _last(self.written, start)

    @invariant()
    def epochs_end_where_they_ended(self) -> None:
        """The ends are correct even if a cleaning has left nothing of an epoch."""
        log = self.house.log
        if log.segments[0].base_offset == 0:
            batches = list(zip(self.bases, self.epochs, strict=True))
            for asked in range(-1, self.number // 4 + 2):
                assert log.end_offset_for_epoch(asked) == epoch_end(batches, asked, len(self.written))

    @invariant()
    def producers_are_remembered(self) -> None:
        known = {number: state.last_sequence + 1 for number, state in self.house.log.producers}
        start = self.house.log.log_start_offset
        assert known == known | {n: sequence for n, (sequence, end) in self.sequences.items() if end > start}


def _values_by_key(records: list[Record]) -> dict[bytes | None, bytes]:
    return _without_tombstones({record.key: record.value for record in records})


def _last(written: list[KeyValue], start: int) -> dict[bytes | None, bytes]:
    return _without_tombstones(dict(written[start:]))


def _without_tombstones(values: dict[bytes | None, bytes | None]) -> dict[bytes | None, bytes]:
    return {key: value for key, value in values.items() if value is not None}


TestCompactedLogOnFailingMachine = CompactedLogOnFailingMachine.TestCase
TestCompactedLogOnFailingMachine.settings = settings(max_examples=150, stateful_step_count=12, deadline=None)
