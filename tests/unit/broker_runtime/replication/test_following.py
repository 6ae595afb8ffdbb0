"""A follower's fetcher against a leader's own handlers: catching up, truncation, mishaps."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from random import Random
from typing import Any, cast

import pytest

from broker_runtime.apis.fetch import offset_for_leader_epoch
from broker_runtime.apis.fetch_sessions.fetch_sessions import FetchSessionCache
from broker_runtime.config import BrokerConfig, TopicConfig
from broker_runtime.coordination.backoff import Backoff
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.topics import Partition
from broker_runtime.replication.following.fetch_messages import Fetched, FetchLimits
from broker_runtime.replication.following.fetcher import FetcherSettings, LeaderFetcher
from broker_runtime.replication.following.follower import Cut, FollowerReplica, cut_for
from broker_runtime.replication.following.leader_questions import log_start
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.log.follower_log import FollowerLog
from broker_runtime.wire.messages import decode_request, encode_request_body, encode_response_body
from broker_runtime.wire.versions import FETCH, LIST_OFFSETS
from kafka_bytes.batches import HEADER_BYTES
from tests.support.fakes import virtual_time
from tests.support.fakes.disks.manual_disk import ManualDisk
from tests.support.logs.cleaning import append_keyed, clean, records_of
from tests.support.logs.logs import TOPIC_ID, LogHouse, read_all, values_of
from tests.support.logs.replicas import TOPIC, LeadingNode, LinkTo, brokers, lag_of, leading
from tests.support.requests.calls import a_call, fields_of

SETTINGS = FetcherSettings(2, FetchLimits(0, 1, 1 << 20, 10 << 20), 5.0, 0.4)


class Pair:
    """Broker 1 leads orders-0 in epoch 3, broker 2 follows."""

    def __init__(self, leader: LogHouse, follower: LogHouse, epoch: int = 3) -> None:
        self.leader_house, self.follower_house = leader, follower
        leader.log.sole_replica = follower.log.sole_replica = False
        self.leader = leading(leader.log, 1, 2, epoch=epoch)
        self.link = LinkTo(LeadingNode(self.leader, leader.clock))
        backoff = Backoff(SETTINGS.backoff_max_s)
        self.replica = FollowerReplica(TOPIC, TOPIC_ID, 0, follower.log, 1, epoch, backoff)
        self.suspected: list[FollowerReplica] = []
        self.fetcher = LeaderFetcher(
            1,
            self.link,
            SETTINGS,
            follower.clock,
            lambda: 12,
            follower.logs,
            self.suspected.append,
        )
        self.fetcher.follow(self.replica)

    def run_until(self, reached: Callable[[], bool]) -> None:
        async def run() -> None:
            task = asyncio.create_task(self.fetcher.run())
            try:
                for _ in range(60_000):
                    if reached():
                        return
                    await asyncio.sleep(0.001)
                raise AssertionError("it did not come true within a minute")
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

        virtual_time.run(run(), self.follower_house.clock)

    def run_for(self, seconds: float) -> None:
        clock = self.follower_house.clock
        end_s = clock.monotonic() + seconds
        self.run_until(lambda: clock.monotonic() >= end_s)

    @property
    def caught_up(self) -> bool:
        return self.replica.log.log_end_offset == self.leader.log.log_end_offset == self.leader.log.high_watermark

    def bytes_of(self, house: LogHouse) -> bytes:
        log = house.log
        region = log.read(log.log_start_offset, 1 << 20, min_one=True, up_to=log.log_end_offset)
        return b"" if region is None else region.read()


def written(epoch_values: dict[int, list[bytes]]) -> LogHouse:
    house = LogHouse()
    extend(house, epoch_values)
    return house


def extend(house: LogHouse, epoch_values: dict[int, list[bytes]]) -> None:
    for epoch, values in epoch_values.items():
        for value in values:
            house.append(value, leader_epoch=epoch)


def test_an_empty_follower_gets_everything_and_the_leader_hears_of_it() -> None:
    pair = Pair(written({0: [b"a", b"b"], 3: [b"c"]}), LogHouse())
    pair.run_until(lambda: lag_of(pair.leader, 2) == 0 and pair.replica.log.high_watermark == 3)
    assert pair.bytes_of(pair.follower_house) == pair.bytes_of(pair.leader_house)
    assert pair.replica.log.latest_epoch == 3


def test_what_only_the_old_leader_had_is_cut_before_anything_is_fetched() -> None:
    """KIP-101: broker 2 led epoch 2 and wrote what broker 1, the leader of epoch 3, never got."""
    ours, theirs = written({0: [b"a"], 2: [b"b"], 3: [b"new"]}), written({0: [b"a"], 2: [b"b", b"lost", b"lost too"]})
    pair = Pair(ours, theirs)
    pair.run_until(lambda: pair.caught_up)
    assert pair.bytes_of(theirs) == pair.bytes_of(ours)
    assert values_of(theirs.log)[:3] == [b"a", b"b", b"new"]


def test_two_logs_that_know_different_epochs_are_compared_step_by_step() -> None:
    """KIP-279: fast leader changes leave different epochs in both logs at the same offsets."""
    ours = written({0: [b"a", b"b"], 4: [b"c", b"d"], 6: [b"e"]})
    theirs = written({0: [b"a", b"b"], 3: [b"x", b"y"], 5: [b"z", b"z", b"z"]})
    pair = Pair(ours, theirs, epoch=6)
    pair.run_until(lambda: pair.caught_up)
    assert pair.bytes_of(theirs) == pair.bytes_of(ours)


def made_from_a_cleaned_log() -> LogHouse:
    """A replica of a cleaned log.

    Of epoch 1, which began at 3, a cleaning has left only offset 5, and the replica does not know the others.
    """
    config = TopicConfig(cleanup_policy=("compact",))
    first, house = LogHouse(config), LogHouse(config)
    append_keyed(first, (b"other", b"v"))
    for number in range(1, 6):
        append_keyed(first, (b"k", b"%d" % number), leader_epoch=number // 3)
    first.log.files.roll()
    first.log.flush()
    assert clean(first) is not None
    house.follower.append(memoryview(b"".join(batch for _, batch in read_all(first.log))))
    assert [record.offset for record in records_of(house.log)] == [0, 5]
    return house


def test_records_of_a_deposed_leader_are_truncated_where_the_new_leader_has_a_gap() -> None:
    """The cut does not lie behind the start of the next epoch as the new leader knows it."""
    ours, theirs = made_from_a_cleaned_log(), LogHouse()
    append_keyed(theirs, (b"other", b"v"))
    for value in (b"1", b"2", b"lost", b"lost too"):
        append_keyed(theirs, (b"k", value))
    pair = Pair(ours, theirs)
    pair.run_until(lambda: pair.caught_up)
    assert pair.bytes_of(theirs) == pair.bytes_of(ours)


def test_only_replicas_are_told_where_the_last_batch_of_an_epoch_ends() -> None:
    """A consumer may have read records before a cleaning removed them."""
    house = made_from_a_cleaned_log()
    node = cast("Any", LeadingNode(leading(house.log, 1, 2, epoch=3), house.clock))
    api = offset_for_leader_epoch.API

    def ends(replica_id: int | None, *epochs: int) -> list[tuple[int, int]]:
        """End offsets of epochs. Version 2, which librdkafka uses, names no replica."""
        version = 2 if replica_id is None else 4
        parts = [{"partition": 0, "current_leader_epoch": 3, "leader_epoch": epoch} for epoch in epochs]
        content = ({} if replica_id is None else {"replica_id": replica_id}) | {
            "topics": [{"topic": TOPIC, "partitions": parts}]
        }
        body = memoryview(encode_request_body(api.key, version, content))
        answer = api.handle(decode_request(api.key, version, body), a_call(api, version), node)
        return [(part["leader_epoch"], part["end_offset"]) for part in fields_of(answer)["topics"][0]["partitions"]]

    assert ends(-1, 0, 1, 2, 3) == [(0, 5), (1, 6), (1, 6), (3, 6)]
    assert ends(None, 0, 1, 2, 3) == [(0, 5), (1, 6), (1, 6), (3, 6)]
    assert ends(2, 0, 1, 2, 3) == [(0, 1), (1, 6), (1, 6), (3, 6)]
    assert ends(2, *[0] * 100) == [(0, 1)] * 100


async def _awaited(answer: Awaitable[Any]) -> Any:
    return await answer


def test_a_follower_that_is_behind_what_the_leader_kept_begins_anew() -> None:
    ours = written({0: [b"a", b"b", b"c"]})
    ours.log.high_watermark = 3
    ours.log.files.roll()
    ours.log.delete_records(3)
    extend(ours, {3: [b"d"]})
    pair = Pair(ours, LogHouse())
    pair.run_until(lambda: pair.replica.log.log_end_offset == 4)
    assert pair.replica.log.log_start_offset == 3


def test_the_leaders_log_start_is_taken_over() -> None:
    ours = written({0: [b"a", b"b", b"c"]})
    pair = Pair(ours, LogHouse())
    pair.run_until(lambda: pair.caught_up)
    ours.log.delete_records(2)
    pair.run_until(lambda: pair.replica.log.log_start_offset == 2)
    assert pair.caught_up


def test_a_log_start_is_noted_beside_the_event_loop_before_the_leader_hears_of_it() -> None:
    disk = ManualDisk()
    disk.slow = False
    pair = Pair(written({0: [b"a", b"b", b"c"]}), LogHouse(disk=disk))
    pair.run_until(lambda: pair.caught_up)
    house = pair.follower_house
    house.clock.advance(61)
    at_once(house.logs.tick())
    disk.slow = True
    pair.leader.log.delete_records(2)
    before, seen = house.fs.fsyncs, list[tuple[int, int]]()

    def heard() -> bool:
        if disk.busy:
            seen.append((house.fs.fsyncs - before, pair.leader.low_watermark))
            if len(seen) > 100:
                disk.finish_all()
        return pair.leader.low_watermark == 2

    pair.run_until(heard)
    assert set(seen) == {(0, 0)}
    assert house.fs.fsyncs > before


def test_a_follower_reports_when_it_has_the_leaders_log_start() -> None:
    ours = written({0: [b"a", b"b", b"c"]})
    pair = Pair(ours, LogHouse())
    pair.run_until(lambda: pair.caught_up and pair.leader.low_watermark == 0)
    ours.log.delete_records(2)
    assert pair.leader.low_watermark == 0
    pair.run_until(lambda: pair.leader.low_watermark == 2)
    pair.follower_house.kill()
    assert pair.follower_house.log.log_start_offset == 2, "what it told is on its disk"


def test_mishaps_of_the_way_are_survived() -> None:
    pair = Pair(written({3: [b"a"]}), LogHouse())
    pair.link.mishaps = [KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "nobody there")] * 3
    pair.run_until(lambda: pair.caught_up)
    assert not pair.link.mishaps


def test_an_error_code_that_only_a_newer_leader_knows_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    codes, take = [999, 998], LeaderFetcher._take

    async def take_unknown(fetcher: LeaderFetcher, fetched: Fetched) -> None:
        await take(fetcher, fetched._replace(code=codes.pop()) if codes else fetched)

    monkeypatch.setattr(LeaderFetcher, "_take", take_unknown)
    pair = Pair(written({3: [b"a"]}), LogHouse())
    pair.run_until(lambda: pair.caught_up)
    assert not codes
    assert "UNKNOWN_SERVER_ERROR" in caplog.text


def test_a_log_start_that_the_leader_leaves_out_is_asked_for_again() -> None:
    async def nothing(_key: int, version: int, _body: bytes) -> memoryview:
        return memoryview(encode_response_body(LIST_OFFSETS, version, {"topics": []}))

    pair = Pair(written({3: [b"a"]}), LogHouse())
    with pytest.raises(KafkaError, match="response lacks"):
        asyncio.run(log_start(nothing, 2, pair.replica))


def test_a_leader_of_another_epoch_is_not_fetched_from() -> None:
    pair = Pair(written({0: [b"a"]}), LogHouse())
    pair.replica.leader_epoch = 2
    pair.run_until(lambda: len(pair.link.asked) > 3)
    assert pair.replica.log.log_end_offset == 0


def test_a_forgotten_partition_is_left_alone() -> None:
    pair = Pair(written({3: [b"a"]}), LogHouse())
    pair.fetcher.forget(TOPIC_ID, 0)
    assert not pair.fetcher
    pair.run_until(lambda: True)
    assert not pair.link.asked


@pytest.mark.parametrize(
    ("mine", "leader_epoch", "leader_end", "cut"),
    [
        ({0: 3, 2: 2}, 2, 4, Cut(4, True)),
        ({0: 3, 2: 2}, 2, 9, Cut(5, True)),
        ({0: 3, 2: 2}, -1, -1, Cut(1, True)),
        ({0: 3, 2: 2}, 1, 7, Cut(3, False)),
        ({2: 4}, 1, 3, Cut(0, True)),
    ],
    ids=[
        "the leader has less of it",
        "the leader has more",
        "the leader knows none",
        "an epoch of its own",
        "nothing so old",
    ],
)
def test_cut_for_returns_the_truncation_offset(
    mine: dict[int, int], leader_epoch: int, leader_end: int, cut: Cut
) -> None:
    house = written({epoch: [b"v"] * count for epoch, count in mine.items()})
    house.log.high_watermark = 1
    assert cut_for(house.log, leader_epoch, leader_end) == cut


def starting_inside_a_batch(start: int) -> LogHouse:
    """A log of batches of ten records with the first `start` records deleted, and one more batch."""
    house = LogHouse()
    for number in range(5):
        house.append(*(b"%d" % (10 * number + n) for n in range(10)), leader_epoch=3)
    house.log.delete_records(start)
    return house


def test_an_empty_follower_of_a_log_that_starts_inside_a_batch_begins_where_the_batch_does() -> None:
    """As Kafka's UnexpectedAppendOffsetException; the log start is still the leader's."""
    ours = starting_inside_a_batch(25)
    pair = Pair(ours, LogHouse())
    pair.run_until(lambda: pair.caught_up and pair.replica.log.log_start_offset == 25)
    assert pair.bytes_of(pair.follower_house) == pair.bytes_of(ours)
    assert pair.replica.log.segments[0].base_offset == 20
    pair.follower_house.kill()
    assert (pair.follower_house.log.log_start_offset, pair.follower_house.log.log_end_offset) == (25, 50)


def test_a_follower_that_was_away_while_records_were_deleted_comes_back() -> None:
    theirs = LogHouse()
    theirs.append(*(b"%d" % n for n in range(10)), leader_epoch=3)
    pair = Pair(starting_inside_a_batch(25), theirs)
    pair.run_until(lambda: pair.caught_up and pair.replica.log.log_start_offset == 25)
    assert pair.bytes_of(theirs) == pair.bytes_of(pair.leader_house)


def refuse_appends(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Make the follower refuse every append; return the monotonic times of its attempts."""
    tried: list[float] = []

    def refuse(_log: FollowerLog, _records: memoryview) -> int:
        tried.append(pair.follower_house.clock.monotonic())
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "of no use")

    monkeypatch.setattr(FollowerLog, "append", refuse)
    return tried


def test_a_partition_that_makes_no_progress_is_left_alone_longer_each_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another comparison of epochs is not progress."""
    pair = Pair(written({3: [b"a"]}), LogHouse())
    tried = refuse_appends(pair, monkeypatch)
    caplog.set_level("INFO")
    pair.run_until(lambda: len(tried) == 12)
    pauses = [later - earlier for earlier, later in pairwise(tried)]
    assert pauses[:5] == sorted(pauses[:5])
    assert all(pause >= SETTINGS.backoff_max_s for pause in pauses[6:])
    assert len([r for r in caplog.records if "of no use" in r.message]) == 1, "said once, as nothing has changed"


@pytest.mark.parametrize("at", [7, 16, HEADER_BYTES], ids=["offset", "magic", "records"])
def test_a_leader_that_sends_a_damaged_batch_is_suspected(at: int) -> None:
    """The offset is outside the checksum: the leader would send it for ever."""
    leader = written({3: [b"a", b"b", b"c"]})
    segment = leader.log.segments[-1]
    position = segment.position_of(1)
    assert position is not None
    leader.fs.flip(segment.path, position + at, 1)
    pair = Pair(leader, LogHouse())
    pair.run_until(lambda: pair.replica in pair.suspected)


def test_a_log_that_cannot_be_recreated_is_skipped_and_others_continue() -> None:
    pair = Pair(starting_inside_a_batch(25), LogHouse())
    house = pair.follower_house
    house.fs.read_only = True
    pair.run_until(lambda: pair.replica.backoff.failures > 2)
    assert pair.link.asked.count(FETCH) > 2, "the way to the leader is not at fault"
    house.fs.mend()


def flushing() -> tuple[LogHouse, ManualDisk]:
    disk = ManualDisk()
    return LogHouse(TopicConfig(flush_messages=1), disk), disk


def test_the_leader_hears_of_records_once_the_follower_has_synced_them() -> None:
    theirs, disk = flushing()
    pair = Pair(written({3: [b"a", b"b"]}), theirs)
    pair.run_until(lambda: disk.busy == 1)
    asked = len(pair.link.asked)
    pair.run_for(2.0)
    assert (lag_of(pair.leader, 2), len(pair.link.asked) - asked) == (2, 0), "it asks for nothing more meanwhile"
    disk.slow = False
    disk.finish_all()
    pair.run_until(lambda: pair.caught_up)


def test_other_partitions_do_not_wait_for_one_that_is_being_synced() -> None:
    slow, disk = flushing()
    pair = Pair(written({3: [b"a"]}), slow)
    other = LogHouse()
    other.log.sole_replica = False
    second = FollowerReplica(TOPIC, TOPIC_ID, 7, other.log, 1, 3, Backoff(0.4))
    pair.run_until(lambda: disk.busy == 1)
    # The leader's same log under another number: here it is not slow.
    pair.link.node.led = lambda _topic, _index: pair.leader  # type: ignore[method-assign,assignment]
    pair.fetcher.follow(second)
    pair.run_until(lambda: pair.link.asked.count(FETCH) > 2)
    assert disk.busy == 1
    assert pair.replica.log.counted_end == 0


def test_a_follower_with_a_failed_disk_fetches_no_more() -> None:
    theirs, disk = flushing()
    pair = Pair(written({3: [b"a"]}), theirs)
    pair.run_until(lambda: disk.busy == 1)
    theirs.fs.failing_fsync = True
    disk.finish_all()
    pair.run_for(2.0)
    asked = len(pair.link.asked)
    pair.run_for(2.0)
    assert len(pair.link.asked) == asked
    assert lag_of(pair.leader, 2) == 1


def test_a_session_that_the_leader_has_lost_is_begun_again_without_delay(caplog: pytest.LogCaptureFixture) -> None:
    pair = Pair(written({3: [b"a"]}), LogHouse())
    pair.run_until(lambda: pair.caught_up)
    pair.link.node.fetch_sessions = FetchSessionCache(
        BrokerConfig(max_incremental_fetch_session_cache_slots=10), Random(2)
    )
    extend(pair.leader_house, {3: [b"b"]})
    caplog.set_level("INFO")
    pair.run_until(lambda: pair.caught_up)
    assert not [r for r in caplog.records if "fetched" in r.message]


def test_a_partition_with_a_new_epoch_is_fetched_in_that_epoch() -> None:
    pair = Pair(written({3: [b"a"]}), LogHouse())
    pair.run_until(lambda: pair.caught_up)
    pair.leader.update(Partition((1, 2), (1, 2), 1, 4, 1), brokers(1, 2), 0.0)
    replica = pair.replica
    backoff = Backoff(SETTINGS.backoff_max_s)
    pair.replica = FollowerReplica(TOPIC, TOPIC_ID, 0, replica.log, 1, 4, backoff)
    pair.fetcher.forget(TOPIC_ID, 0)
    pair.fetcher.follow(pair.replica)
    extend(pair.leader_house, {4: [b"b"]})
    pair.run_until(lambda: pair.caught_up)


def test_partitions_added_one_by_one_do_not_keep_the_leader_from_answering() -> None:
    """The state while metadata about thousands of partitions is applied over several time slices."""
    pair = Pair(written({3: [b"a"]}), LogHouse())
    pair.run_until(lambda: pair.caught_up)
    pair.fetcher._waits_for_records = True
    closed = pair.link.closed

    async def come() -> None:
        for _ in range(100):
            pair.fetcher.follow(pair.replica)
            await asyncio.sleep(0.001)

    virtual_time.run(come(), pair.follower_house.clock)
    assert 1 <= pair.link.closed - closed <= 6
