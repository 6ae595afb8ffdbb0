"""Random lives of one replica, as leader and as follower, on a machine that fails: its log equals the model."""

from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import at_once
from kafka_bytes.batches import NO_PRODUCER, ProducerStamp
from tests.support.logs.logs import LogHouse
from tests.support.logs.replica_model import ModelBatch, epoch_end, stored

CONFIG = TopicConfig(segment_bytes=600, index_interval_bytes=80, file_delete_delay_ms=0)
SIZES = st.lists(st.integers(0, 60), min_size=1, max_size=4)
PRODUCERS = (-1, 1, 2)


class ReplicaOnFailingMachine(RuleBasedStateMachine):
    """Records below `synced` survive a power loss; the log begins somewhere in the model's first batch."""

    def __init__(self) -> None:
        super().__init__()
        self.house = LogHouse(CONFIG)
        self.house.log.sole_replica = False
        self.batches: list[ModelBatch] = []
        self.synced = 0
        self.start = 0
        self.epoch = 0
        self.number = 0

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else self.start

    def _next(self, base: int, sizes: list[int], producer_id: int, before: Sequence[ModelBatch]) -> ModelBatch:
        self.number += 1
        stamp = NO_PRODUCER
        if producer_id >= 0:
            last = _last_of(producer_id, before)
            sequence = 0 if last is None else last.producer.base_sequence + len(last.values)
            stamp = ProducerStamp(producer_id, 0, sequence)
        return ModelBatch(base, self.epoch, tuple(b"%06d" % self.number + b"v" * size for size in sizes), stamp)

    @rule(sizes=SIZES, producer_id=st.sampled_from(PRODUCERS), newer=st.booleans())
    def lead(self, sizes: list[int], producer_id: int, newer: bool) -> None:
        self.epoch += newer
        batch = self._next(self.end, sizes, producer_id, self.batches)
        assert self.house.append(*batch.values, producer=batch.producer, leader_epoch=self.epoch) == batch.base
        self.batches.append(batch)

    @rule(parts=st.lists(st.tuples(SIZES, st.booleans()), min_size=1, max_size=8), cut=st.integers(0, 60))
    def follow(self, parts: list[tuple[list[int], bool]], cut: int) -> None:
        fetched = self._fetched(parts)
        sent = b"".join(batch.encoded(self.house.clock.wall_ms()) for batch in fetched)
        whole = fetched if cut == 0 else fetched[:-1]
        end = self.house.follower.append(memoryview(sent)[: len(sent) - cut])
        self.batches += whole
        assert end == self.end

    def _fetched(self, parts: list[tuple[list[int], bool]]) -> list[ModelBatch]:
        fetched: list[ModelBatch] = []
        for number, (sizes, newer) in enumerate(parts):
            self.epoch += newer
            base = fetched[-1].end if fetched else self.end
            fetched.append(self._next(base, sizes, PRODUCERS[number % 3], [*self.batches, *fetched]))
        return fetched

    @rule(parts=st.lists(st.tuples(SIZES, st.booleans()), min_size=2, max_size=6), data=st.data())
    def follow_a_leader_whose_bytes_are_damaged(self, parts: list[tuple[list[int], bool]], data: st.DataObject) -> None:
        fetched = self._fetched(parts)
        sent = [bytearray(batch.encoded(self.house.clock.wall_ms())) for batch in fetched]
        bad = data.draw(st.integers(0, len(sent) - 1))
        sent[bad][-1] ^= 1
        code = None
        try:
            self.house.follower.append(memoryview(b"".join(sent)))
        except KafkaError as error:
            code = error.code
        assert code == ErrorCode.CORRUPT_MESSAGE
        self.batches += fetched[:bad]

    @rule(parts=st.lists(st.tuples(SIZES, st.booleans()), min_size=1, max_size=4), room=st.integers(0, 400))
    def follow_on_a_nearly_full_disk(self, parts: list[tuple[list[int], bool]], room: int) -> None:
        fetched = self._fetched(parts)
        sent = b"".join(batch.encoded(self.house.clock.wall_ms()) for batch in fetched)
        fs = self.house.fs
        fs.capacity_bytes = fs.used_bytes() + room
        code = None
        try:
            self.house.follower.append(memoryview(sent))
        except KafkaError as error:
            code = error.code
        fs.capacity_bytes = None
        assert code in (None, ErrorCode.KAFKA_STORAGE_ERROR)
        end = self.house.log.log_end_offset
        assert code is not None or end == fetched[-1].end
        self.batches += [batch for batch in fetched if batch.end <= end]
        self.epoch = max(self.epoch, fetched[-1].epoch)

    @rule(back=st.integers(0, 40))
    def truncate(self, back: int) -> None:
        at = max(0, self.end - back)
        has_nothing_below = at <= self.house.log.segments[0].base_offset
        self.house.follower.truncate_to(at)
        self.batches = [] if has_nothing_below else [batch for batch in self.batches if batch.end <= at]
        if not self.batches:
            self.start = at if has_nothing_below else self.house.log.segments[0].base_offset
        self._was_cut()

    @rule(offset=st.integers(0, 300))
    def begin_anew(self, offset: int) -> None:
        self.house.follower.restart_at(offset)
        self.batches, self.start = [], offset
        self._was_cut()

    def _was_cut(self) -> None:
        self.synced = min(self.synced, self.end)
        self.start = min(self.start, self.end)
        self.epoch += 1

    @rule(share=st.floats(0, 1))
    def take_over_the_leaders_start(self, share: float) -> None:
        self.house.follower.move_start(self.start + int((self.synced - self.start) * share))
        self.start = self.house.log.log_start_offset

    @rule()
    def flush(self) -> None:
        self.house.log.flush()
        self.synced = self.end

    @rule()
    def tick(self) -> None:
        self.house.clock.advance(61)
        at_once(self.house.logs.tick())
        self.synced = max(self.synced, self.house.log.recovery_point)

    @rule()
    def replicate(self) -> None:
        self.house.log.advance_high_watermark(self.end)

    @rule()
    def kill(self) -> None:
        self.house.kill()
        self.house.log.sole_replica = False

    @rule()
    def restart(self) -> None:
        self.house.restart()
        self.house.log.sole_replica = False
        self.synced = self.end

    @rule(seed=st.integers(0, 2**32))
    def lose_power(self, seed: int) -> None:
        before = self.end
        self.house.lose_power(seed, keeps_names=seed % 2 == 1)
        log = self.house.log
        log.sole_replica = False
        end = log.log_end_offset
        assert self.synced <= end <= before
        self.batches = [batch for batch in self.batches if batch.end <= end]
        if not self.batches:
            self.start = log.log_start_offset
        self.synced = end

    @invariant()
    def the_log_is_what_the_model_says(self) -> None:
        log = self.house.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
        assert log.recovery_point <= log.log_end_offset
        assert stored(log) == [batch for batch in self.batches if batch.end > self.start]

    @invariant()
    def epochs_end_where_their_batches_do(self) -> None:
        log = self.house.log
        kept = [batch for batch in self.batches if batch.base >= log.segments[0].base_offset]
        known = [(batch.base, batch.epoch) for batch in kept]
        assert log.latest_epoch == max((epoch for _, epoch in known), default=-1)
        for asked in range(-1, self.epoch + 2):
            assert log.end_offset_for_epoch(asked) == epoch_end(known, asked, self.end)

    @invariant()
    def producers_are_remembered_by_what_is_left(self) -> None:
        states = self.house.log.producers
        for producer_id in PRODUCERS[1:]:
            last = _last_of(producer_id, self.batches)
            first = 0 if last is None else last.producer.base_sequence
            count = 1 if last is None else len(last.values)
            repeated = states.duplicate_or_check(producer_id, 0, first, first + count - 1)
            found = None if repeated is None else repeated.first_offset
            expected = None if last is None else last.base
            deleted = expected is not None and expected < self.house.log.segments[0].base_offset
            assert found == expected or (deleted and found is None)


def _last_of(producer_id: int, batches: Sequence[ModelBatch]) -> ModelBatch | None:
    return next((batch for batch in reversed(batches) if batch.producer.producer_id == producer_id), None)


TestReplicaOnFailingMachine = ReplicaOnFailingMachine.TestCase
TestReplicaOnFailingMachine.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
