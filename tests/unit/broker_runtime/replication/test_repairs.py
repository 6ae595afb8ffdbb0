"""Damaged replicas are mended by those of other brokers: each broker's own parts, with requests between them."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from broker_runtime.apis.fetch import replica_range
from broker_runtime.config import TopicConfig, broker_settings
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.brokers import RegisterBroker, UnfenceBroker
from broker_runtime.metadata.areas.topics import PartitionRecord, TopicRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.on_demand import Importer
from broker_runtime.replication import repairing
from broker_runtime.replication.following.follower import FollowerReplica
from broker_runtime.replication.manager import ReplicaManager
from broker_runtime.replication.peer import Peers
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.records.batch import iter_batches, iter_records
from broker_runtime.wire.header import response_prefix
from broker_runtime.wire.messages import decode_request, encode_response
from broker_runtime.wire.protocol_versions import PROTOCOL_VERSION_MAX
from kafka_bytes.batches import HEADER_BYTES
from tests.support.fakes import virtual_time
from tests.support.fakes.manual_clock import ManualClock
from tests.support.logs.logs import TOPIC_ID, LogHouse, values_of
from tests.support.requests.calls import a_call

CONFIG = TopicConfig(segment_bytes=1000, index_interval_bytes=100)
COUNT = 40
EPOCH = 3
EVERYTHING = [b"%02d" % number for number in range(COUNT)]


class Link:
    """A link to one broker's handler; `mishaps` are raised first, one for each request."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> memoryview:
        await asyncio.sleep(0.001)
        broker = self._broker
        broker.asked += 1
        broker.on_asked()
        if broker.mishaps:
            raise broker.mishaps.pop(0)
        context = cast("Any", SimpleNamespace(replica_log=broker.manager.replica_log))
        request = decode_request(api_key, version, memoryview(body))
        answer = cast("Any", replica_range.handle(request, a_call(replica_range.API, version), context))
        whole = encode_response(api_key, version, 0, answer)
        return memoryview(whole)[len(response_prefix(api_key, version, 0, 0)) :]

    def close(self) -> None:
        pass


class Broker:
    def __init__(self, cluster: "Cluster", me: int, config: TopicConfig) -> None:
        self.house = LogHouse(config)
        for number, value in enumerate(EVERYTHING):
            self.house.append(value, leader_epoch=number // 10)
        self.house.log.flush()
        self.asked = 0
        self.on_asked: Callable[[], None] = lambda: None
        self.mishaps: list[KafkaError] = []
        self._cluster = cluster
        self._me = me
        self._manage()

    def _manage(self) -> None:
        settings, cluster = broker_settings({"node.id": str(self._me)}), self._cluster
        self.manager = ReplicaManager(settings, cluster.clock, self.house.logs, cluster.image, cast("Peers", cluster))

    def restart(self) -> None:
        self.house.restart()
        self._manage()

    @property
    def log(self) -> Log:
        return self.house.log

    @property
    def unreadable(self) -> list[tuple[int, int]]:
        return [(each.first_offset, each.next_offset) for each in self.log.damage]

    def damage(self, *offsets: int, at: int = 16, find: bool = True) -> None:
        """Flip bits of these batches; with `find` a reader then finds the damage."""
        places = []
        for offset in offsets:
            segment = next(each for each in self.log.segments if each.base_offset <= offset < each.next_offset)
            position = segment.position_of(offset)
            assert position is not None
            places.append((segment.path, position))
        for path, position in places:
            self.house.fs.flip(path, position + at, 0x40)
        for offset in offsets if find else ():
            with pytest.raises(KafkaError):
                self.log.read(offset, 80, min_one=True, up_to=COUNT)


class Cluster:
    """Brokers 1, 2 and 3 have replicas of one partition; broker 1 leads."""

    def __init__(self, config: TopicConfig = CONFIG, versions: int = PROTOCOL_VERSION_MAX) -> None:
        self.clock = ManualClock()
        self.image = MetadataImage()
        for broker in (1, 2, 3):
            epoch = self.image.next_offset
            registered = RegisterBroker(broker, TOPIC_ID, epoch, (), protocol_versions=(1, versions))
            self.image.apply(registered, epoch)
            self.image.apply(UnfenceBroker(broker, epoch), self.image.next_offset)
        self.image.apply(TopicRecord("orders", TOPIC_ID), self.image.next_offset)
        self.brokers = {broker: Broker(self, broker, config) for broker in (1, 2, 3)}
        self.elect(1, EPOCH)

    def elect(
        self, leader: int, epoch: int, isr: tuple[int, ...] = (1, 2, 3), elr: tuple[int, ...] = (), change: int = 0
    ) -> None:
        record = PartitionRecord(TOPIC_ID, 0, (1, 2, 3), isr, leader, epoch, epoch + change, elr=elr)
        self.image.apply(record, self.image.next_offset)
        for broker, node in self.brokers.items():
            list(node.manager.apply_partitions(TOPIC_ID, [0], node.house.config))
            if broker != leader:
                self.follower(broker).truncated = True

    def follower(self, broker: int) -> FollowerReplica:
        return self.brokers[broker].manager.followed_replicas.followers["orders", 0]

    def link_to(self, broker_id: int) -> Link:
        return Link(self.brokers[broker_id])

    def run(self, *brokers: int, until: Callable[[], bool]) -> None:
        async def repair() -> None:
            tasks = [asyncio.create_task(self.brokers[broker].manager.repairs.run()) for broker in brokers]
            try:
                for _ in range(60_000):
                    if until():
                        return
                    for task in tasks:
                        assert not task.done(), task
                    await asyncio.sleep(0.01)
                raise AssertionError("it did not come true within ten minutes")
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

        virtual_time.run(repair(), self.clock)

    def mend(self, broker: int) -> None:
        self.run(broker, until=lambda: not self.brokers[broker].unreadable)
        assert values_of(self.brokers[broker].log) == EVERYTHING


@pytest.mark.parametrize("broker", [1, 2])
@pytest.mark.parametrize(("offsets", "ranges"), [((0,), 1), ((7, 8), 1), ((13, 14, 15, 27), 3)])
def test_a_damaged_replica_is_mended_by_another(broker: int, offsets: tuple[int, ...], ranges: int) -> None:
    cluster = Cluster()
    cluster.brokers[broker].damage(*offsets)
    assert cluster.brokers[broker].unreadable
    cluster.mend(broker)
    damage = cluster.brokers[broker].house.logs.damage
    assert (damage.mended_ranges, damage.logs()) == (ranges, [])


def test_a_follower_asks_its_leader_first_and_fetches_nothing_before_it_is_repaired() -> None:
    cluster = Cluster()
    cluster.brokers[2].damage(7)
    follower, changes = cluster.follower(2), list[FollowerReplica]()
    follower.on_change = changes.append
    assert follower.waits_for_repair
    assert not follower.is_ready(cluster.clock.monotonic())
    cluster.mend(2)
    assert follower.is_ready(cluster.clock.monotonic())
    assert changes
    assert (cluster.brokers[1].asked, cluster.brokers[3].asked) == (1, 0)


def test_a_replica_that_its_leader_cannot_mend_is_mended_by_a_third_one() -> None:
    cluster = Cluster()
    for broker in (1, 2):
        cluster.brokers[broker].damage(7)
    cluster.mend(2)
    cluster.mend(1)


def test_a_follower_with_the_same_damage_as_its_leader_continues_to_follow() -> None:
    """The follower lacks nothing that the leader has, and later records should be on more than one disk."""
    cluster = Cluster()
    for broker in cluster.brokers.values():
        broker.damage(7)
    follower = cluster.follower(2)
    cluster.run(1, 2, 3, until=lambda: not follower.waits_for_repair)
    assert follower.is_ready(cluster.clock.monotonic() + 1)
    said = cluster.brokers[2].manager.repairs.state_of(("orders", 0))
    assert "no other replica has offsets 7 to 7: broker 1: CORRUPT_MESSAGE" in said
    assert all(broker.unreadable == [(7, 8)] for broker in cluster.brokers.values())


def _restarted(broker: Broker) -> None:
    """Restart: its damage is found again, and everything else can be read."""
    unreadable, values = broker.unreadable, _readable(broker)
    broker.house.restart()
    assert broker.unreadable == unreadable
    assert _readable(broker) == values


def _readable(broker: Broker) -> list[bytes]:
    """Values of the records outside of damaged ranges."""
    found, offset = list[bytes](), 0
    for first, next_offset in [*broker.unreadable, (COUNT, COUNT)]:
        while offset < first:
            region = broker.log.read(offset, 1 << 20, min_one=True, up_to=first)
            assert region is not None
            for header, batch in iter_batches(region.read()):
                found += [record.value or b"" for record in iter_records(batch)]
                offset = header.last_offset + 1
        offset = next_offset
    return found


def _stays_damaged(cluster: Cluster, broker: int, *ranges: tuple[int, int]) -> None:
    """Assert that a broker keeps exactly this damage after all possible repairs."""
    node = cluster.brokers[broker]
    cluster.run(broker, until=lambda: node.unreadable == list(ranges))
    lost = {offset for first, next_offset in ranges for offset in range(first, next_offset)}
    assert _readable(node) == [value for number, value in enumerate(EVERYTHING) if number not in lost]
    _restarted(node)


@pytest.mark.parametrize("broker", [1, 2])
@pytest.mark.parametrize("only_here", [(3,), (9,), (3, 9), (9, 10), (27,), (1, 27, 33)])
def test_a_range_that_others_have_is_repaired_even_if_another_range_is_lost(
    broker: int, only_here: tuple[int, ...]
) -> None:
    """In the same segment as offset 7, which no broker has, before it and behind it, and in other segments."""
    cluster = Cluster()
    for number, each in cluster.brokers.items():
        each.damage(7, *(only_here if number == broker else ()))
    assert len(cluster.brokers[broker].unreadable) > 1
    _stays_damaged(cluster, broker, (7, 8))
    if broker != 1:
        assert not cluster.follower(broker).waits_for_repair


def test_a_follower_waits_for_repair_until_its_leader_reports_the_same_damage() -> None:
    cluster = Cluster()
    cluster.brokers[1].damage(27)
    for broker in (2, 3):
        cluster.brokers[broker].damage(7, 27)
    follower = cluster.follower(2)
    cluster.brokers[1].mishaps = [KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "it is away")]
    cluster.run(2, until=lambda: cluster.brokers[1].asked > 0 and not cluster.brokers[1].mishaps)
    assert follower.waits_for_repair
    cluster.run(2, until=lambda: not follower.waits_for_repair)
    assert cluster.brokers[2].unreadable == [(27, 28)]


@pytest.mark.parametrize("end", [8, 9])
def test_a_replica_that_ends_inside_a_damaged_range_mends_what_it_has(end: int) -> None:
    cluster = Cluster()
    cluster.brokers[1].damage(7, 8, 9, 20)
    for broker in (2, 3):
        cluster.brokers[broker].log.sole_replica = False
        cluster.brokers[broker].house.follower.truncate_to(end)
    _stays_damaged(cluster, 1, (end, 10), (20, 21))


def test_a_lost_file_is_mended_up_to_where_another_replica_ends() -> None:
    cluster = Cluster()
    node = cluster.brokers[1]
    base, follows = (node.log.segments[number].base_offset for number in (1, 2))
    path = node.log.segments[1].path
    node.house.fs.lose(path)
    node.restart()
    cluster.elect(1, EPOCH)
    assert node.unreadable == [(base, follows)]
    for broker in (2, 3):
        cluster.brokers[broker].log.sole_replica = False
        cluster.brokers[broker].house.follower.truncate_to(base + 3)
    _stays_damaged(cluster, 1, (base + 3, follows))


def test_a_source_that_does_not_answer_is_asked_once_for_all_segments() -> None:
    cluster = Cluster()
    cluster.brokers[2].damage(7, 9, 20, 27, 33)
    cluster.brokers[1].mishaps = [KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "it is away")] * 100
    cluster.mend(2)
    assert cluster.brokers[1].asked == 1


def test_a_range_that_no_broker_has_is_requested_with_growing_delays() -> None:
    cluster = Cluster()
    for broker in cluster.brokers.values():
        broker.damage(7)
    end_s = cluster.clock.monotonic() + 300
    cluster.run(1, until=lambda: cluster.clock.monotonic() > end_s)
    assert cluster.brokers[2].asked < 30


def test_a_damage_that_the_source_did_not_know_of_is_found_there() -> None:
    cluster = Cluster()
    cluster.brokers[2].damage(7)
    for broker in (1, 3):
        cluster.brokers[broker].damage(7, at=HEADER_BYTES + 2, find=False)
    cluster.run(2, until=lambda: all(broker.unreadable == [(7, 8)] for broker in cluster.brokers.values()))


@pytest.mark.parametrize("at", [16, HEADER_BYTES + 2])
def test_a_second_damage_that_was_not_known_is_mended_with_the_first(at: int) -> None:
    cluster = Cluster()
    cluster.brokers[2].damage(3)
    cluster.brokers[2].damage(7, at=at, find=False)
    cluster.mend(2)
    assert cluster.brokers[2].house.logs.damage.mended_ranges == 2


def test_a_leader_that_sends_damaged_records_is_asked_to_check_them() -> None:
    cluster = Cluster()
    cluster.brokers[1].damage(7, at=HEADER_BYTES + 2, find=False)
    newcomer = cluster.follower(2)
    newcomer.log.sole_replica = False
    cluster.brokers[2].house.follower.truncate_to(7)
    cluster.brokers[2].manager.repairs.suspect_leader(newcomer)
    cluster.run(1, 2, until=lambda: cluster.brokers[1].house.logs.damage.mended_ranges == 1)
    assert values_of(cluster.brokers[1].log) == EVERYTHING


def _flipped(broker: Broker, path: Path, position: int) -> None:
    broker.house.fs.flip(path, position + 16, 0x40)


def _without_header(broker: Broker, path: Path, position: int) -> None:
    broker.house.fs.open(path).write_at([bytes(HEADER_BYTES)], position)


def _of_another_offset(broker: Broker, path: Path, position: int) -> None:
    broker.house.fs.flip(path, position + 7, 0x40)


@pytest.mark.parametrize("rot", [_flipped, _without_header, _of_another_offset])
def test_a_leader_finds_a_damaged_header_although_it_knows_the_position(
    rot: Callable[[Broker, Path, int], None],
) -> None:
    """The newest batch, which no follower has: the high watermark ends before it, so a follower names no end."""
    cluster = Cluster()
    leader, newcomer = cluster.brokers[1], cluster.follower(2)
    newcomer.log.sole_replica = False
    cluster.brokers[2].house.follower.truncate_to(COUNT - 1)
    active = leader.log.segments[-1]
    position = active.position_of(COUNT - 1)
    assert position is not None
    rot(leader, active.path, position)
    cluster.brokers[2].manager.repairs.suspect_leader(newcomer)
    cluster.run(2, until=lambda: bool(leader.unreadable))
    assert leader.unreadable == [(COUNT - 1, COUNT)]


@pytest.mark.parametrize(
    "mishap",
    [KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "it is away"), KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no")],
)
def test_a_source_that_fails_is_followed_by_the_next_one(mishap: KafkaError) -> None:
    cluster = Cluster()
    cluster.brokers[2].damage(7)
    cluster.brokers[1].mishaps = [mishap] * 1_000
    cluster.mend(2)
    assert cluster.brokers[3].asked == 1


def test_brokers_of_an_older_release_are_not_asked() -> None:
    cluster = Cluster(versions=4)
    cluster.brokers[2].damage(7)
    end_s = cluster.clock.monotonic() + 5
    cluster.run(2, until=lambda: cluster.clock.monotonic() > end_s)
    assert (cluster.brokers[1].asked, cluster.brokers[3].asked) == (0, 0)
    assert "no other replica is available" in cluster.brokers[2].manager.repairs.state_of(("orders", 0))


def test_another_epoch_is_refused() -> None:
    cluster = Cluster()
    manager = cluster.brokers[2].manager
    assert manager.replica_log(TOPIC_ID, 0, EPOCH) is cluster.brokers[2].log
    for epoch, code in ((EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH), (EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        with pytest.raises(KafkaError) as refused:
            manager.replica_log(TOPIC_ID, 0, epoch)
        assert refused.value.code == code
    cluster.follower(2).truncated = False
    with pytest.raises(KafkaError) as refused:
        manager.replica_log(TOPIC_ID, 0, EPOCH)
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_epoch_that_ends_on_the_way_ends_the_repair_and_the_next_one_begins_it_again() -> None:
    cluster = Cluster(TopicConfig(segment_bytes=10_000))
    cluster.brokers[2].damage(7, 20)
    follower = cluster.follower(2)

    cluster.brokers[1].on_asked = lambda: cluster.elect(3, EPOCH + 1)
    cluster.mend(2)
    assert cluster.follower(2) is not follower
    assert cluster.brokers[3].asked


def test_a_follower_deletes_damaged_records_that_its_leader_deleted() -> None:
    cluster = Cluster()
    cluster.brokers[2].damage(7)
    leader = cluster.brokers[1].log
    leader.high_watermark = COUNT
    leader.delete_records(20)
    cluster.run(2, until=lambda: not cluster.brokers[2].unreadable)
    assert cluster.brokers[2].log.log_start_offset == 20


def test_a_part_that_was_cleaned_is_fetched_again_with_all_behind_it() -> None:
    """Another replica may be less clean: its older record of a key could return without the tombstone behind it."""
    cluster = Cluster(TopicConfig(segment_bytes=1000, cleanup_policy=("compact",)))
    for broker in (1, 2):
        cluster.brokers[broker].damage(7)
        cluster.brokers[broker].log.first_dirty_offset = 20
    cluster.brokers[2].log.sole_replica = False
    end_s = cluster.clock.monotonic() + 5
    cluster.run(1, until=lambda: cluster.clock.monotonic() > end_s)
    assert cluster.brokers[1].unreadable == [(7, 8)]
    assert "once another broker leads" in cluster.brokers[1].manager.repairs.state_of(("orders", 0))
    assert cluster.brokers[1].manager.led_replicas.leaders["orders", 0].hands_over
    cluster.run(2, until=lambda: "CORRUPT" in cluster.brokers[2].manager.repairs.state_of(("orders", 0)))
    assert cluster.brokers[2].log.log_end_offset == COUNT, "the leader does not have it"
    cluster.elect(3, EPOCH + 1, isr=(1, 3))
    cluster.run(2, until=lambda: cluster.brokers[2].log.log_end_offset == 7)
    assert cluster.brokers[2].unreadable == []


def _with_a_damaged_cleaned_part() -> Cluster:
    """A cluster in which offset 7 of broker 2 is damaged, below its first dirty offset."""
    cluster = Cluster(TopicConfig(segment_bytes=1000, cleanup_policy=("compact",)))
    cluster.brokers[2].damage(7)
    for broker in cluster.brokers.values():
        broker.log.first_dirty_offset = 20
    cluster.brokers[2].log.sole_replica = False
    return cluster


@pytest.mark.parametrize(("isr", "elr", "told"), [((1, 2, 3), (), "in-sync set"), ((1,), (2,), "restart this broker")])
def test_a_replica_that_may_be_elected_is_not_cut(isr: tuple[int, ...], elr: tuple[int, ...], told: str) -> None:
    """If elected before it has them again, it would lead without acknowledged records."""
    cluster = _with_a_damaged_cleaned_part()
    cluster.elect(1, EPOCH, isr, elr, change=1)
    cluster.run(2, until=lambda: told in cluster.brokers[2].manager.repairs.state_of(("orders", 0)))
    assert cluster.brokers[2].log.log_end_offset == COUNT
    assert not cluster.follower(2).is_ready(cluster.clock.monotonic()), "so that the leader takes it out"
    cluster.elect(1, EPOCH, isr=(1, 3), change=2)
    cluster.run(2, until=lambda: cluster.brokers[2].log.log_end_offset == 7)


def test_a_replica_keeps_what_its_leader_cannot_read_elsewhere() -> None:
    """A cut of the replica would lose the only copy of other records."""
    cluster = _with_a_damaged_cleaned_part()
    cluster.brokers[1].damage(30, at=HEADER_BYTES + 2, find=False)
    cluster.elect(1, EPOCH, isr=(1,), change=1)
    end_s = cluster.clock.monotonic() + 5
    cluster.run(2, until=lambda: cluster.clock.monotonic() > end_s)
    assert cluster.brokers[2].log.log_end_offset == COUNT
    assert not cluster.follower(2).leader_lacks_it, "of what is damaged here"
    cluster.run(1, 2, until=lambda: cluster.brokers[2].log.log_end_offset == 7)
    assert values_of(cluster.brokers[1].log) == EVERYTHING


def test_a_repair_ends_with_its_broker_whatever_it_waits_for() -> None:
    cluster = Cluster()
    cluster.brokers[2].damage(7)

    async def stopped() -> None:
        task = asyncio.create_task(cluster.brokers[2].manager.repairs.run())
        asked = asyncio.Event()
        cluster.brokers[1].on_asked = asked.set
        await asked.wait()
        await cluster.brokers[2].manager.stop()
        cluster.elect(3, EPOCH + 1)
        task.cancel()
        async with asyncio.timeout(5):
            await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    virtual_time.run(stopped(), cluster.clock)


def test_code_that_cannot_be_loaded_is_loaded_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [OSError(24, "Too many open files")]

    async def load(_: Importer, name: str) -> ModuleType:
        assert name == repairing.__name__
        if failures:
            raise failures.pop()
        return repairing

    monkeypatch.setattr(Importer, "load", load)
    cluster = Cluster()
    cluster.brokers[2].damage(7)
    cluster.mend(2)
    assert "the code that repairs logs cannot be loaded" in caplog.text
    assert "Too many open files" in caplog.text
