"""Random histories: after any fault, all promised records are there and every batch is complete."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import at_once
from kafka_bytes.batches import checksum
from tests.support.logs.logs import LogHouse, read_all, values_of


class LogOnFailingMachine(RuleBasedStateMachine):
    """A log on a machine that fails.

    `acknowledged` are the values of appends that returned; the first `synced` of them must survive a power loss.
    """

    def __init__(self) -> None:
        super().__init__()
        self.house = LogHouse(TopicConfig(segment_bytes=600, index_interval_bytes=80, file_delete_delay_ms=0))
        self.acknowledged: list[bytes] = []
        self.synced = 0
        self.start = 0
        self.number = 0

    @rule(sizes=st.lists(st.integers(0, 60), min_size=1, max_size=4))
    def append(self, sizes: list[int]) -> None:
        self.number += 1
        values = [b"%06d" % self.number + b"v" * size for size in sizes]
        assert self.house.append(*values) == len(self.acknowledged)
        self.acknowledged += values

    @rule(room=st.integers(0, 150))
    def append_to_a_nearly_full_disk(self, room: int) -> None:
        fs = self.house.fs
        fs.capacity_bytes = fs.used_bytes() + room
        code = None
        try:
            self.house.append(b"maybe" * 10)
        except KafkaError as error:
            code = error.code
        fs.capacity_bytes = None
        assert code in (None, ErrorCode.KAFKA_STORAGE_ERROR)
        if code is None:
            self.acknowledged.append(b"maybe" * 10)

    @rule()
    def flush(self) -> None:
        self.house.log.flush()
        self.synced = len(self.acknowledged)

    @rule()
    def tick(self) -> None:
        self.house.clock.advance(61)
        at_once(self.house.logs.tick())
        self.synced = max(self.synced, self.house.log.recovery_point)

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        before = self.house.log.log_start_offset
        span = self.synced - before
        if span > 0:
            self.start = self.house.log.delete_records(before + int(span * share))

    @rule()
    def kill(self) -> None:
        self.house.kill()

    @rule()
    def restart(self) -> None:
        self.house.restart()
        self.synced = len(self.acknowledged)

    @rule(seed=st.integers(0, 2**32))
    def lose_power(self, seed: int) -> None:
        self.house.lose_power(seed, keeps_names=seed % 2 == 1)
        end = self.house.log.log_end_offset
        assert self.synced <= end <= len(self.acknowledged)
        del self.acknowledged[end:]
        self.synced = end

    @invariant()
    def everything_acknowledged_is_readable_and_whole(self) -> None:
        log = self.house.log
        assert log.log_start_offset == self.start
        assert log.log_end_offset == log.high_watermark == len(self.acknowledged)
        expected = self.start
        for header, batch in read_all(log, 300):
            assert checksum(batch) == header.crc
            assert header.base_offset <= expected <= header.last_offset
            expected = header.last_offset + 1
        assert expected == len(self.acknowledged)
        assert values_of(log)[::-1][: expected - self.start] == self.acknowledged[self.start :][::-1]


TestLogOnFailingMachine = LogOnFailingMachine.TestCase
TestLogOnFailingMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_what_was_synced_stays_though_a_segment_that_had_just_been_taken_out_was_not() -> None:
    """The segment's end is not the start of the log: previously all later segments were dropped as if it were lost."""
    for seed in range(20):
        house = LogHouse(TopicConfig(segment_bytes=1000))
        house.append(b"old" * 100)
        house.logs.note_recovery_points()
        house.append(b"old" * 100)
        house.append(b"new" * 200)
        house.log.files.old.rename_away(1, house.clock.wall_ms(), lambda: None)
        house.log.flush()
        house.lose_power(seed, keeps_names=seed % 2 == 1)
        assert values_of(house.log) == [b"new" * 200]
