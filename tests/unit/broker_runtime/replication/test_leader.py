"""A leader's reaction to its followers' fetches: high watermark, in-sync set, waits."""

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.topics import Partition
from broker_runtime.replication.leader import LeaderReplica, PendingIsrChange
from broker_runtime.replication.wanted_isr import wanted_change
from tests.support.logs.logs import LogHouse
from tests.support.logs.replicas import broker_info, brokers, lag_of, leading

LAG_S = 30.0
EPOCHS = {1: 11, 2: 12, 3: 13}


class Led:
    """Broker 1 leads; 2 and 3 follow."""

    def __init__(self, *isr: int) -> None:
        self.house = LogHouse()
        self.leader = leading(self.house.log, 1, 2, 3, isr=isr or None)
        self.brokers = brokers(1, 2, 3)

    def append(self, count: int = 1) -> None:
        for _ in range(count):
            self.house.append(b"v")

    def fetch(self, replica: int, offset: int, now_s: float = 0.0, epoch: int | None = None) -> None:
        self.leader.on_fetch(replica, EPOCHS[replica] if epoch is None else epoch, offset, now_s)

    def wanted(self, now_s: float) -> tuple[int, ...] | None:
        change = wanted_change(self.leader, self.brokers, now_s, LAG_S, EPOCHS[1])
        return None if change is None else change.isr

    @property
    def high_watermark(self) -> int:
        return self.house.log.high_watermark


def test_the_high_watermark_is_what_all_in_sync_replicas_have() -> None:
    led = Led()
    led.append(3)
    assert led.high_watermark == 0
    led.fetch(2, 3)
    assert led.high_watermark == 0
    led.fetch(3, 1)
    assert led.high_watermark == 1
    led.fetch(3, 3)
    assert led.high_watermark == 3


def damaged(led: Led, *offsets: int) -> None:
    """Make these batches of the leader's log unreadable."""
    (segment,) = led.house.log.segments
    places = {offset: segment.position_of(offset) for offset in offsets}
    for position in places.values():
        assert position is not None
        led.house.fs.flip(segment.path, position + 16, 1)
    for offset in offsets:
        led.house.log.suspect(offset)
    led.leader.damage_changed()


@pytest.mark.parametrize("isr", [(1, 2, 3), (1,)])
def test_the_high_watermark_does_not_pass_a_damage_of_what_no_other_replica_can_have(isr: tuple[int, ...]) -> None:
    led = Led(*isr)
    led.leader.log.sole_replica = False
    led.append(4)
    damaged(led, 2)
    for replica in (2, 3):
        led.fetch(replica, 2)
    assert led.high_watermark == 2
    led.append()
    assert led.high_watermark == 2


def test_the_high_watermark_does_not_move_inside_a_damage_that_began_below_it() -> None:
    """Batches on both sides of it are one damaged range: its end was never replicated."""
    led = Led()
    led.leader.log.sole_replica = False
    led.append(4)
    for replica in (2, 3):
        led.fetch(replica, 2)
    assert led.high_watermark == 2
    damaged(led, 1, 2)
    assert led.wanted(1.0) == (2, 3)
    for replica in (2, 3):
        led.fetch(replica, 4)
    assert led.high_watermark == 2


def test_damage_of_earlier_records_blocks_no_later_ones() -> None:
    """Another leader may have acknowledged it: the records behind it are served."""
    house = LogHouse()
    for _ in range(4):
        house.append(b"v")
    led = Led()
    led.house, led.leader = house, leading(house.log, 1, 2, 3)
    house.log.sole_replica = False
    damaged(led, 2)
    led.append()
    for replica in (2, 3):
        led.fetch(replica, 5)
    assert led.high_watermark == 5
    assert led.wanted(1.0) is None


def test_a_leader_with_a_damage_that_no_other_replica_can_have_hands_over_to_the_others_in_sync() -> None:
    led = Led()
    led.append(4)
    damaged(led, 2)
    for replica in (2, 3):
        led.fetch(replica, 2)
    assert led.wanted(1.0) == (2, 3)
    led.brokers[2] = broker_info(2, fenced=True)
    assert led.wanted(1.0) == (3,)
    led.brokers[3] = broker_info(3, fenced=True)
    assert led.wanted(1.0) is None
    led = Led(1)
    led.append(4)
    damaged(led, 2)
    assert led.wanted(1.0) is None, "what a leader has acknowledged alone only it can serve"


def test_a_leader_hands_over_where_it_cannot_be_mended_unless_too_few_would_be_in_sync() -> None:
    led = Led()
    led.append()
    for replica in (2, 3):
        led.fetch(replica, 1)
    led.leader.hands_over = True
    assert led.wanted(1.0) == (2, 3)
    led.house.log.update_config(TopicConfig(min_insync_replicas=3))
    assert led.wanted(1.0) is None
    led.leader.update(Partition((1, 2, 3), (1, 2, 3), 1, 1, 1), led.brokers, 1.0)
    assert not led.leader.hands_over


def test_a_replica_outside_the_set_holds_nothing_up() -> None:
    led = Led(1, 2)
    led.append(2)
    led.fetch(2, 2)
    assert led.high_watermark == 2


def test_a_leader_that_is_alone_in_sync_needs_nobody() -> None:
    led = Led(1)
    led.append(2)
    assert led.high_watermark == 2


def test_from_the_moment_an_addition_is_asked_for_the_joining_replica_counts() -> None:
    led = Led(1)
    led.append(2)
    led.fetch(2, 2)
    change = wanted_change(led.leader, led.brokers, 0.0, LAG_S, EPOCHS[1])
    assert change == PendingIsrChange((1, 2), {1: 11, 2: 12}, 0)
    led.leader.begin(change)
    led.append()
    assert led.high_watermark == 2, "the controller may have made 2 a member already"
    led.fetch(2, 3)
    assert led.high_watermark == 3


def test_a_removal_counts_once_the_controller_has_taken_it() -> None:
    led = Led()
    led.append(2)
    led.fetch(2, 2, now_s=100)
    change = wanted_change(led.leader, led.brokers, 100.0, LAG_S, EPOCHS[1])
    assert change is not None
    assert change.isr == (1, 2)
    led.leader.begin(change)
    assert led.high_watermark == 0
    led.leader.update(Partition((1, 2, 3), (1, 2), 1, 0, 1), led.brokers, 100.0)
    assert led.high_watermark == 2
    assert led.leader.pending is None


@pytest.mark.parametrize("refused", [True, False])
def test_a_refused_addition_leaves_the_set_as_it_was(refused: bool) -> None:
    led = Led(1)
    led.append()
    led.fetch(2, 1)
    change = wanted_change(led.leader, led.brokers, 0.0, LAG_S, EPOCHS[1])
    assert change is not None
    led.leader.begin(change)
    led.append()
    if refused:
        led.leader.refused()
    assert led.high_watermark == (2 if refused else 1)


def test_a_refusal_after_the_leadership_ended_changes_nothing() -> None:
    led = Led(1)
    led.append()
    led.fetch(2, 1)
    change = wanted_change(led.leader, led.brokers, 0.0, LAG_S, EPOCHS[1])
    assert change is not None
    led.leader.begin(change)
    led.append()
    led.leader.resign()
    led.leader.refused()
    assert (led.high_watermark, led.house.log.sole_replica) == (1, False)


@pytest.mark.parametrize(
    ("offset", "fetched_s", "now_s", "stays"),
    [(5, 0.0, 29.0, True), (4, 0.0, 31.0, False), (5, 0.0, 500.0, True), (4, 10.0, 31.0, False)],
)
def test_a_follower_is_out_after_the_lag_unless_it_has_everything(
    offset: int, fetched_s: float, now_s: float, stays: bool
) -> None:
    led = Led(1, 2)
    led.append(5)
    led.fetch(2, offset, fetched_s)
    assert led.wanted(now_s) == (None if stays else (1,))


def test_a_follower_that_keeps_reaching_where_the_leader_just_was_stays_in_sync() -> None:
    led = Led(1, 2)
    for second in range(100):
        led.append()
        led.fetch(2, second, float(second))
    assert led.wanted(100.0) is None


def test_a_follower_comes_back_at_the_high_watermark_and_the_start_of_the_epoch() -> None:
    led = Led(1, 2)
    led.append(3)
    led.fetch(2, 3)
    led.append(2)
    led.fetch(3, 2)
    assert led.wanted(0.0) is None
    led.fetch(3, 3)
    assert led.wanted(0.0) == (1, 2, 3)


def test_a_new_leader_admits_no_follower_to_the_isr_that_may_lack_its_earlier_records() -> None:
    house = LogHouse()
    house.log.sole_replica = False
    for _ in range(4):
        house.append(b"v")
    leader = leading(house.log, 1, 2, 3, isr=(1, 2), epoch=7)
    leader.on_fetch(3, EPOCHS[3], 2, 0.0)
    assert wanted_change(leader, brokers(1, 2, 3), 0.0, LAG_S, 11) is None, (
        "the high watermark is 0, the epoch begins at 4"
    )
    leader.on_fetch(3, EPOCHS[3], 4, 0.0)
    assert wanted_change(leader, brokers(1, 2, 3), 0.0, LAG_S, 11) is not None


@pytest.mark.parametrize("why", ["fenced", "replaced", "gone"])
def test_a_replaced_or_fenced_replica_does_not_join_the_isr(why: str) -> None:
    led = Led(1, 2)
    led.fetch(3, 0)
    led.brokers[3] = broker_info(3, epoch=99) if why == "replaced" else broker_info(3, fenced=True)
    if why == "gone":
        del led.brokers[3]
    assert led.wanted(0.0) is None


def test_progress_of_a_replaced_incarnation_is_forgotten() -> None:
    led = Led(1, 2)
    led.append(2)
    led.fetch(3, 2)
    led.brokers[3] = broker_info(3, epoch=99)
    led.leader.follow_brokers(led.brokers, 0.0)
    assert led.wanted(0.0) is None
    with pytest.raises(KafkaError) as refused:
        led.fetch(3, 2)
    assert refused.value.code == ErrorCode.STALE_BROKER_EPOCH
    led.fetch(3, 2, epoch=102)
    assert led.wanted(0.0) == (1, 2, 3)


def test_a_replaced_in_sync_follower_holds_the_high_watermark_until_it_is_out_or_has_caught_up() -> None:
    led = Led(1, 2)
    led.append(2)
    led.fetch(2, 2)
    led.brokers[2] = broker_info(2, epoch=99)
    led.leader.follow_brokers(led.brokers, 0.0)
    led.append()
    led.leader.advance()
    assert led.high_watermark == 2


def test_strangers_are_no_followers() -> None:
    with pytest.raises(KafkaError) as refused:
        Led().leader.on_fetch(9, -1, 0, 0.0)
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_newer_metadata_ends_a_pending_change_and_older_metadata_is_ignored() -> None:
    led = Led(1)
    led.fetch(2, 0)
    change = wanted_change(led.leader, led.brokers, 0.0, LAG_S, 11)
    assert change is not None
    led.leader.begin(change)
    led.leader.update(Partition((1, 2, 3), (1, 3), 1, 0, 5), led.brokers, 0.0)
    assert (led.leader.pending, led.leader.isr) == (None, (1, 3))
    led.leader.update(Partition((1, 2, 3), (1, 2), 1, 0, 4), led.brokers, 0.0)
    assert led.leader.isr == (1, 3)


def test_waiting_ends_when_replicated_or_when_the_leader_resigns() -> None:
    led = Led(1, 2)
    led.append(2)
    done: list[str] = []
    led.house.log.add_waiter(0, lambda: done.append("first"))
    led.house.log.add_waiter(1, lambda: done.append("second"))
    undo = led.house.log.add_waiter(1, lambda: done.append("undone"))
    undo()
    led.fetch(2, 1)
    assert done == ["first"]
    led.leader.resign()
    assert done == ["first", "second"]
    led.fetch(2, 2)
    assert done == ["first", "second"], "once each"


def test_no_more_replicas_are_needed_in_sync_than_the_partition_has() -> None:
    for min_isr, isr, is_under in ((1, (1,), False), (2, (1,), True), (2, (1, 2), False), (5, (1, 2), True)):
        house = LogHouse(TopicConfig(min_insync_replicas=min_isr))
        assert leading(house.log, 1, 2, 3, isr=isr).is_under_min_isr is is_under
        house = LogHouse(TopicConfig(min_insync_replicas=min_isr))
        assert not leading(house.log, 1, 2).is_under_min_isr


def test_a_new_epoch_begins_at_the_logs_end_and_knows_nothing_of_followers() -> None:
    led = Led()
    led.append(2)
    led.fetch(2, 2)
    led.leader.update(Partition((1, 2, 3), (1, 2), 1, 3, 9), led.brokers, 0.0)
    leader: LeaderReplica = led.leader
    assert (leader.leader_epoch, leader.start_offset, lag_of(leader, 2)) == (3, 2, None)


# Eligible leader replicas (KIP-966)


def test_an_eligible_replica_that_is_away_keeps_the_high_watermark_where_it_is() -> None:
    led = Led(1, 2)
    led.append(3)
    led.fetch(2, 3)
    led.leader.update(Partition((1, 2, 3), (1,), 1, 0, 1, elr=(2,)), led.brokers, 0.0)
    led.append(2)
    assert led.high_watermark == 3
    led.leader.update(Partition((1, 2, 3), (1, 3), 1, 0, 2), led.brokers, 0.0)
    led.fetch(3, 5)
    assert led.high_watermark == 5


def test_an_eligible_replica_that_still_fetches_counts_with_what_it_has() -> None:
    led = Led(1, 2)
    led.append(3)
    led.leader.update(Partition((1, 2, 3), (1,), 1, 0, 1, elr=(2,)), led.brokers, 0.0)
    led.fetch(2, 2)
    assert led.high_watermark == 2
    led.fetch(3, 3)
    assert led.high_watermark == 2


def test_records_of_an_eligible_replica_before_its_restart_do_not_count() -> None:
    led = Led(1, 2)
    led.append(3)
    led.leader.update(Partition((1, 2, 3), (1,), 1, 0, 1, elr=(2,)), led.brokers, 0.0)
    led.fetch(2, 1)
    led.append(3)
    led.brokers[2] = broker_info(2, epoch=99)
    led.leader.follow_brokers(led.brokers, 0.0)
    led.leader.advance()
    assert led.high_watermark == 1
    led.fetch(2, 4, epoch=101)
    assert led.high_watermark == 4


def test_a_leader_alone_does_not_count_for_all_while_somebody_is_eligible() -> None:
    led = Led(1, 2)
    led.leader.update(Partition((1, 2, 3), (1,), 1, 0, 1, elr=(2,)), led.brokers, 0.0)
    assert not led.house.log.sole_replica
    led.leader.update(Partition((1, 2, 3), (1,), 1, 0, 2), led.brokers, 0.0)
    assert led.house.log.sole_replica


def test_an_elected_eligible_replica_waits_for_the_others_that_are() -> None:
    house = LogHouse()
    house.log.sole_replica = False
    for _ in range(4):
        house.append(b"v")
    leader = LeaderReplica(1, "orders", house.log.topic_id, 0, house.log)
    leader.update(Partition((1, 2, 3), (1,), 1, 5, 5, elr=(3,)), brokers(1, 2, 3), 0.0)
    before = house.log.high_watermark
    leader.on_fetch(2, EPOCHS[2], 4, 0.0)
    assert house.log.high_watermark == before
    leader.on_fetch(3, EPOCHS[3], 4, 0.0)
    assert house.log.high_watermark == 4
