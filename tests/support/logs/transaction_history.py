"""A random history of transactions in one log, on a machine that fails, beside a model of what readers must see.

The model is a list with one entry for each offset. A transaction is open from its first entry to its marker. Everything
that a reader sees follows from that list, the high watermark and the log's start. The history is drawn from a seed.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.records.transactions import VerificationGuard
from kafka_bytes.batches import ProducerStamp, encode_batch
from tests.support.logs.cleaning import clean
from tests.support.logs.logs import LogHouse
from tests.support.logs.transactions import committed_values, end, write

CONFIG = TopicConfig(segment_bytes=500, index_interval_bytes=80, file_delete_delay_ms=0)
COMPACTED = TopicConfig(
    segment_bytes=500,
    index_interval_bytes=80,
    file_delete_delay_ms=0,
    cleanup_policy=("compact",),
    delete_retention_ms=1_000,
)
PRODUCERS = (1, 2, 3, 4)
KEYS = (b"a", b"b", b"c")
RENEWABLE = (".txnindex", ".snapshot", ".index", ".timeindex")


@dataclass(frozen=True)
class Entry:
    """One offset of the log: a record, or a marker with `is_commit` set."""

    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1
    key: bytes = b""
    value: bytes = b""
    first_of_batch: int = 0
    is_commit: bool | None = None
    coordinator_epoch: int = -1

    @property
    def is_marker(self) -> bool:
        return self.is_commit is not None


@dataclass
class Span:
    """A transaction of the model: `marker` is the offset of its end, and None while it is open."""

    producer_id: int
    first: int
    marker: int | None = None
    is_commit: bool = False


@dataclass(frozen=True)
class Verified:
    """A batch that was verified when the log ended at `end`."""

    producer_id: int
    epoch: int
    sequence: int
    guard: VerificationGuard
    end: int


@dataclass
class KnownProducer:
    """The state of a producer after the entries so far, as the log has to know it."""

    epoch: int = 0
    next_sequence: int = 0
    coordinator_epoch: int = -1
    open_since: int = -1


class TransactionHistory:
    """One log with its model. Each call of `step` changes both; `check` compares them.

    A log that is compacted loses no marker here: a coordinator would end the transaction in the same way again, and a
    cleaning may rely on that.
    """

    def __init__(self, seed: int, *, compacts: bool = False) -> None:
        self.random = random.Random(seed)
        self.compacts = compacts
        self.house = LogHouse(COMPACTED if compacts else CONFIG)
        self.entries: list[Entry] = []
        self.number = 0
        self.late: list[Verified] = []
        """Verified batches that are not appended yet."""
        self.is_lossy = compacts
        """Whether a crash may lose what is known of a producer without an open transaction: its batches are removed."""
        self.replicated_to = 0
        """The high watermark when records were removed for the last time."""
        self.copied: list[Entry] = []
        """What the follower has."""
        self.is_exact = True
        """Whether the log knows each marker above the high watermark: a start may know fewer."""
        self.synced = 0
        self.replica = LogHouse(CONFIG)
        self.log.start_replicating(0)
        self.replica.log.start_replicating(0)
        self.steps: list[str] = []

    @property
    def log(self) -> Log:
        return self.house.log

    def run(self, steps: int = 60) -> None:
        for _ in range(steps):
            self.step()
            self.check()

    def step(self) -> None:
        chosen = self.random.choices(STEPS, [weight for _, weight in STEPS])[0][0]
        self.steps.append(chosen.__name__)
        chosen(self)

    # What the model says.

    def producers(self) -> dict[int, KnownProducer]:
        found: dict[int, KnownProducer] = {}
        for offset, entry in enumerate(self.entries):
            if entry.producer_id < 0:
                continue
            state = found.setdefault(entry.producer_id, KnownProducer(entry.epoch))
            if entry.is_marker:
                if entry.epoch != state.epoch:
                    state.next_sequence = 0
                state.epoch, state.open_since = entry.epoch, -1
                state.coordinator_epoch = entry.coordinator_epoch
            else:
                state.epoch, state.next_sequence = entry.epoch, entry.sequence + 1
                if state.open_since < 0:
                    state.open_since = offset
        return found

    def spans(self) -> list[Span]:
        found: list[Span] = []
        opened: dict[int, Span] = {}
        for offset, entry in enumerate(self.entries):
            if entry.is_marker and entry.producer_id in opened:
                span = opened.pop(entry.producer_id)
                span.marker, span.is_commit = offset, entry.is_commit is True
            elif entry.producer_id >= 0 and not entry.is_marker and entry.producer_id not in opened:
                opened[entry.producer_id] = Span(entry.producer_id, offset)
                found.append(opened[entry.producer_id])
        return found

    def stable_offset(self, *, counts_unreplicated: bool) -> int:
        high_watermark = self.log.high_watermark
        unstable = [
            span.first if counts_unreplicated else self._first_left(span)
            for span in self.spans()
            if span.marker is None or (counts_unreplicated and span.marker >= high_watermark)
        ]
        return max(min([high_watermark, *unstable]), self.log.log_start_offset)

    def _first_left(self, span: Span) -> int:
        """Return the first offset of an open transaction whose segment is not deleted."""
        begin = max(span.first, self.log.segments[0].base_offset)
        inside = range(begin, len(self.entries))
        return next((at for at in inside if self.entries[at].producer_id == span.producer_id), len(self.entries))

    def aborted_offsets(self) -> set[int]:
        found: set[int] = set()
        for span in self.spans():
            if span.marker is not None and not span.is_commit:
                inside = range(span.first, span.marker)
                found.update(at for at in inside if self.entries[at].producer_id == span.producer_id)
        return found

    def committed(self, start: int, stop: int) -> list[Entry]:
        aborted = self.aborted_offsets()
        inside = range(start, stop)
        return [self.entries[at] for at in inside if at not in aborted and not self.entries[at].is_marker]

    # Comparing.

    def check(self) -> None:
        log = self.log
        assert log.log_end_offset == len(self.entries)
        stable = log.last_stable_offset
        least, most = (self.stable_offset(counts_unreplicated=counts) for counts in (True, False))
        assert least <= stable <= most
        assert stable == least or not self.is_exact
        self._check_readers(stable)
        known = {number: (state.epoch, state.first_offset, state.coordinator_epoch) for number, state in log.producers}
        for number, state in self.producers().items():
            if not self.is_lossy:
                assert known[number] == (state.epoch, state.open_since, state.coordinator_epoch)
            elif number in known or state.open_since >= 0:
                epoch, since, _ = known[number]
                assert epoch == state.epoch
                assert since == state.open_since or since == self._first_left(Span(number, state.open_since))

    def _check_readers(self, stable: int) -> None:
        log = self.log
        start = self.random.randint(log.log_start_offset, max(stable, log.log_start_offset))
        max_bytes = self.random.choice((1, 300, 1 << 20))
        seen = committed_values(log, start, max_bytes)
        expected = self.committed(start, stable)
        if not self.compacts:
            assert seen == [entry.value for entry in expected]
            return
        values = [entry.value for entry in expected]
        assert [value for value in seen if value not in values] == []
        if stable < self.replicated_to:
            # Fewer markers were known at the last cleaning: records above the stable offset have replaced others.
            return
        last = {entry.key: entry.value for entry in expected}
        assert sorted(set(last.values()) - {value or b"" for value in seen}) == []

    # Steps.

    def _some_end(self, least: int, most: int) -> int:
        """An offset between two batches, as replicas confirm them."""
        bases = {entry.first_of_batch for entry in self.entries[least:most]}
        return self.random.choice([least, *sorted(base for base in bases if least < base), most])

    def _values(self) -> list[bytes]:
        self.number += 1
        return [b"%06d-%d" % (self.number, at) for at in range(self.random.randint(1, 3))]

    def _add(self, values: list[bytes], key: bytes, producer_id: int = -1, epoch: int = -1, sequence: int = -1) -> None:
        base = len(self.entries)
        for number, value in enumerate(values):
            at = sequence + number if sequence >= 0 else -1
            self.entries.append(Entry(producer_id, epoch, at, key, value, base))

    def append_plain(self) -> None:
        values, key = self._values(), self.random.choice(KEYS)
        batch = encode_batch([(key, value) for value in values], self.house.clock.wall_ms())
        assert self.log.append(memoryview(batch)).base_offset == len(self.entries)
        self._add(values, key)

    def append_in_transaction(self) -> None:
        producer_id = self.random.choice(PRODUCERS)
        state = self.producers().get(producer_id, KnownProducer())
        is_v2 = self.random.random() < 0.5
        guard = None
        needs = self.log.needs_verification(producer_id, state.epoch)
        assert needs == (state.open_since < 0)
        if needs:
            guard = self.log.verification_guard(producer_id, state.epoch, state.next_sequence, is_v2=is_v2)
        values, key = self._values(), self.random.choice(KEYS)
        try:
            base = write(
                self.log,
                *values,
                producer_id=producer_id,
                epoch=state.epoch,
                sequence=state.next_sequence,
                guard=guard,
                key=key,
            )
        except KafkaError as error:
            # A cleaning removes an older batch when a newer one is there; then a crash may take the newer one.
            if not self.is_lossy or error.code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                raise
            return
        assert base == len(self.entries)
        self._add(values, key, producer_id, state.epoch, state.next_sequence)

    def verify_only(self) -> None:
        producer_id = self.random.choice(PRODUCERS)
        state = self.producers().get(producer_id, KnownProducer())
        if state.open_since < 0:
            guard = self.log.verification_guard(producer_id, state.epoch, state.next_sequence, is_v2=False)
            self.late.append(Verified(producer_id, state.epoch, state.next_sequence, guard, len(self.entries)))

    def append_late(self) -> None:
        """Append what was verified some steps ago: the log must know whether a marker came in between."""
        if not self.late:
            return
        late = self.late.pop(0)
        producer_id, epoch, sequence = late.producer_id, late.epoch, late.sequence
        is_open = self.producers().get(producer_id, KnownProducer()).open_since >= 0
        values, key, before = self._values(), self.random.choice(KEYS), len(self.entries)
        try:
            base = write(
                self.log,
                *values,
                producer_id=producer_id,
                epoch=epoch,
                sequence=sequence,
                guard=late.guard,
                key=key,
            )
        except KafkaError as error:
            if error.code not in REFUSALS:
                raise
            return
        if base < before:
            # It repeats a batch with the same sequence numbers.
            return
        since = self.entries[late.end :]
        assert is_open or not any(entry.is_marker and entry.producer_id == producer_id for entry in since)
        self._add(values, key, producer_id, epoch, sequence)

    def end_transaction(self) -> None:
        opened = [(number, state) for number, state in self.producers().items() if state.open_since >= 0]
        if not opened:
            return
        producer_id, state = self.random.choice(opened)
        self._mark(producer_id, state, self.random.choice((0, 2)))

    def end_nothing(self) -> None:
        producer_id = self.random.choice(PRODUCERS)
        self._mark(producer_id, self.producers().get(producer_id, KnownProducer()), 0)

    def _mark(self, producer_id: int, state: KnownProducer, version: int) -> None:
        is_commit = self.random.random() < 0.5
        epoch = state.epoch + 1 if version else state.epoch
        coordinator_epoch = max(state.coordinator_epoch, 0) + (self.random.random() < 0.1)
        result = end(
            self.log,
            producer_id=producer_id,
            epoch=epoch,
            is_commit=is_commit,
            coordinator_epoch=coordinator_epoch,
            version=version,
        )
        assert result.base_offset == len(self.entries)
        base = len(self.entries)
        self.entries.append(
            Entry(producer_id, epoch, first_of_batch=base, is_commit=is_commit, coordinator_epoch=coordinator_epoch)
        )

    def refuse(self) -> None:
        """Append what must be refused: a plain batch during a transaction, an old epoch, and markers that are late."""
        known = [(number, state) for number, state in self.producers().items()]
        if not known or self.is_lossy:
            return
        producer_id, state = self.random.choice(known)
        tries: list[tuple[Callable[[], object], ErrorCode]] = []
        if state.open_since >= 0:
            stamp = ProducerStamp(producer_id, state.epoch, state.next_sequence)
            tries.append((lambda: self.house.append(b"x", producer=stamp), ErrorCode.INVALID_TXN_STATE))
            late = {"producer_id": producer_id, "epoch": state.epoch, "version": 2}
            tries.append((lambda: end(self.log, **late), ErrorCode.INVALID_PRODUCER_EPOCH))  # type: ignore[arg-type]
        elif state.next_sequence:
            batch = {"producer_id": producer_id, "epoch": state.epoch, "sequence": state.next_sequence, "guard": None}
            tries.append((lambda: write(self.log, b"x", **batch), ErrorCode.INVALID_TXN_STATE))  # type: ignore[arg-type]
        if state.coordinator_epoch > 0:
            old = {"producer_id": producer_id, "epoch": state.epoch, "coordinator_epoch": state.coordinator_epoch - 1}
            fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
            tries.append((lambda: end(self.log, **old), fenced))  # type: ignore[arg-type]
        if state.epoch > 0:
            old_epoch = {"producer_id": producer_id, "epoch": state.epoch - 1}
            tries.append((lambda: end(self.log, **old_epoch), ErrorCode.INVALID_PRODUCER_EPOCH))  # type: ignore[arg-type]
        for append, code in tries:
            try:
                append()
            except KafkaError as error:
                if error.code != code:
                    raise
            else:
                raise AssertionError(f"the log has accepted what must be refused with {code.name}")

    def advance(self) -> None:
        self.log.advance_high_watermark(self._some_end(self.log.high_watermark, self.log.log_end_offset))

    def advance_to_end(self) -> None:
        self.log.advance_high_watermark(self.log.log_end_offset)

    def flush(self) -> None:
        self.log.flush()
        self.synced = len(self.entries)

    def roll(self) -> None:
        if self.log.segments[-1].size:
            self.log.files.roll()

    def restart(self) -> None:
        high_watermark = self.log.high_watermark
        self.house.restart()
        self._started(high_watermark)
        self.synced = len(self.entries)

    def kill(self) -> None:
        high_watermark = self.log.high_watermark
        self.house.kill()
        self._started(high_watermark)

    def lose_power(self) -> None:
        high_watermark = self.log.high_watermark
        if self.compacts:
            self.flush()
        self.house.lose_power(self.random.randrange(1 << 30), keeps_names=self.random.random() < 0.5)
        assert self.log.log_end_offset >= self.synced
        del self.entries[self.log.log_end_offset :]
        self._started(high_watermark)

    def start_with_damage(self) -> None:
        """Stop or kill the broker, flip a bit of a file that a start can make again, and start the broker."""
        high_watermark = self.log.high_watermark
        if self.random.random() < 0.5:
            self.house.logs.close()
            self.synced = len(self.entries)
        else:
            self.house.fs = self.house.fs.process_killed()
        fs, folder = self.house.fs, self.log.place.folder
        names = sorted(name for name in fs.listdir(folder) if name.endswith(RENEWABLE))
        sizes = {name: fs.open(folder / name).size() for name in names}
        name = self.random.choice([name for name in names if sizes[name]] or [""])
        if name:
            fs.flip(folder / name, self.random.randrange(sizes[name]), 1 << self.random.randrange(8))
        self.house.open_again()
        self._started(high_watermark)

    def _started(self, high_watermark: int) -> None:
        """Continue as the leader that the broker was. Another high watermark than the last one may be known.

        It is not lower than when replicated records were removed.
        """
        self.late.clear()
        self.is_exact = False
        self.log.start_replicating(self._some_end(min(self.replicated_to, high_watermark), high_watermark))

    def truncate(self) -> None:
        """Follow another leader, which lacks some of the records above the high watermark."""
        least = self.log.high_watermark
        if self.compacts:
            least = max(least, *(at + 1 for at, entry in enumerate(self.entries) if entry.is_marker), 0)
        self.house.follower.truncate_to(self._some_end(least, self.log.log_end_offset))
        del self.entries[self.log.log_end_offset :]
        self.synced = min(self.synced, len(self.entries))
        self.late.clear()
        self.is_exact = False

    def delete_records(self) -> None:
        if not self.compacts and self.log.last_stable_offset > 20:
            self.is_lossy = True
            self.replicated_to = self.log.high_watermark
            self.log.delete_records(self.random.randint(0, self.log.last_stable_offset // 2))
            at_once(self.house.logs.tick())

    def clean(self) -> None:
        if not self.compacts:
            return
        self.roll()
        self.flush()
        clean(self.house)
        self.replicated_to = self.log.high_watermark
        self.house.clock.advance(self.random.choice((0, 2)))

    def replicate(self) -> None:
        """Let a follower fetch everything, and compare what it knows of transactions."""
        if self.compacts or self.log.log_start_offset:
            return
        log, replica = self.log, self.replica.log
        if replica.log_end_offset > log.log_end_offset or self._differs():
            self.replica.follower.truncate_to(self._common_end())
        while replica.log_end_offset < log.log_end_offset:
            region = log.read(replica.log_end_offset, 700, min_one=True, up_to=log.log_end_offset)
            assert region is not None
            self.replica.follower.append(memoryview(region.read()))
        replica.advance_high_watermark(log.high_watermark)
        if self.random.random() < 0.3:
            self.replica.kill()
            replica = self.replica.log
            replica.start_replicating(log.high_watermark)
        self.copied = list(self.entries)
        of_replica, of_log = replica.producers.transactions, log.producers.transactions
        assert [of_replica.open_since(number) for number in PRODUCERS] == [
            of_log.open_since(number) for number in PRODUCERS
        ]
        upper = log.log_end_offset
        assert replica.aborted_transactions(0, upper) == log.aborted_transactions(0, upper)
        if self.is_exact:
            assert replica.last_stable_offset <= replica.high_watermark

    def _common_end(self) -> int:
        both = zip(self.copied, self.entries, strict=False)
        return next(
            (at for at, (one, other) in enumerate(both) if one != other), min(len(self.copied), len(self.entries))
        )

    def _differs(self) -> bool:
        return self._common_end() < len(self.copied)


REFUSALS = (
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
)
STEPS: tuple[tuple[Callable[[TransactionHistory], None], int], ...] = (
    (TransactionHistory.append_plain, 4),
    (TransactionHistory.append_in_transaction, 16),
    (TransactionHistory.verify_only, 4),
    (TransactionHistory.append_late, 4),
    (TransactionHistory.end_transaction, 10),
    (TransactionHistory.end_nothing, 1),
    (TransactionHistory.refuse, 3),
    (TransactionHistory.advance, 4),
    (TransactionHistory.advance_to_end, 3),
    (TransactionHistory.flush, 1),
    (TransactionHistory.roll, 1),
    (TransactionHistory.restart, 1),
    (TransactionHistory.kill, 1),
    (TransactionHistory.lose_power, 1),
    (TransactionHistory.start_with_damage, 1),
    (TransactionHistory.truncate, 1),
    (TransactionHistory.delete_records, 1),
    (TransactionHistory.clean, 3),
    (TransactionHistory.replicate, 2),
)
