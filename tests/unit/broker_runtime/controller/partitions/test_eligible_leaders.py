"""Eligible leader replicas (KIP-966): replicas that may lead without being in sync, and in-sync ones that may not."""

from collections.abc import Callable
from uuid import UUID

import pytest

from broker_runtime.controller.partitions import elections
from broker_runtime.controller.partitions.elections import ElectionType, candidates, changed_partition
from broker_runtime.controller.partitions.partition_changes import IsrChange, change_isr
from broker_runtime.controller.partitions.reassignments import reassign
from broker_runtime.controller.registration import Registration, fence, register, stop, unfence, unregister
from broker_runtime.controller.sessions import Sessions
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.configs import ConfigRecord
from broker_runtime.metadata.areas.topics import NO_LEADER, Partition, PartitionRecord
from broker_runtime.metadata.image import ElectionDefaults
from broker_runtime.slicing.steps import at_once
from tests.support.worlds.controller import CLUSTER_ID, Metadata, endpoints

MIN_INSYNC = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"


class Three:
    """Brokers 1 to 3 (and 4 without a replica), a topic with a replica on each of the three."""

    def __init__(self, least: int = 2) -> None:
        self.metadata = Metadata()
        for broker_id in (1, 2, 3, 4):
            self.metadata.broker(broker_id)
        self.metadata.topic("t", [1, 2, 3])
        self.configure(MIN_INSYNC, str(least))

    @property
    def part(self) -> Partition:
        return self.metadata.image.topics["t"].partitions[0]

    def sets(self) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        return self.part.leader, self.part.isr, self.part.elr

    def configure(self, key: str, value: str | None, *, topic: str | None = "t") -> None:
        """Set a key as the controller writes it, with the consequences."""
        change = ConfigRecord(4, "", key, value) if topic is None else ConfigRecord(2, topic, key, value)
        self.metadata.write(change)
        self.metadata.write(*at_once(elections.consequences([change], self.metadata.image)))

    def fence(self, *brokers: int) -> None:
        for broker_id in brokers:
            self.metadata.write(*at_once(fence(self.metadata.image.brokers[broker_id], self.metadata.image)))

    def unfence(self, broker_id: int) -> None:
        self.metadata.write(*at_once(unfence(self.metadata.image.brokers[broker_id], self.metadata.image)))

    def restart(self, broker_id: int, *, whole: bool = False, word: int = -1) -> None:
        """Register a new, fenced incarnation; `word` is an epoch that it vouches for, and `whole` the last one."""
        image = self.metadata.image
        previous = image.brokers[broker_id].epoch if whole else word
        incarnation = UUID(int=9_000 + image.offset)
        wanted = Registration(broker_id, CLUSTER_ID, incarnation, endpoints(), None, previous_epoch=previous)
        self.metadata.commit(at_once(register(wanted, image, Sessions(9.0), 0.0)))

    def ask(self, *isr: int) -> None:
        """Request the in-sync set `isr`, as the leader."""
        image = self.metadata.image
        members = [(r, image.brokers[r].epoch) for r in isr]
        change = IsrChange(image.topics["t"].id, 0, self.part.leader_epoch, self.part.partition_epoch, members)
        self.metadata.write(*change_isr(self.part.leader, change, image).records)


def fenced(cluster: Three, broker_id: int) -> None:
    cluster.fence(broker_id)


def stopped(cluster: Three, broker_id: int) -> None:
    cluster.metadata.write(*at_once(stop(cluster.metadata.image.brokers[broker_id], cluster.metadata.image)))


def fell_behind(cluster: Three, broker_id: int) -> None:
    cluster.ask(*(r for r in cluster.part.isr if r != broker_id))


def restarted(cluster: Three, broker_id: int) -> None:
    cluster.restart(broker_id, whole=True)


@pytest.mark.parametrize("leaves", [fenced, stopped, fell_behind, restarted])
def test_a_leaving_replica_is_eligible_once_too_few_are_in_sync(leaves: Callable[[Three, int], None]) -> None:
    cluster = Three()
    leaves(cluster, 2)
    assert cluster.sets() == (1, (1, 3), ())
    leaves(cluster, 3)
    assert cluster.sets() == (1, (1,), (3,))


def test_all_that_leave_at_once_are_eligible_together() -> None:
    cluster = Three()
    cluster.ask(1)
    assert cluster.sets() == (1, (1,), (2, 3))


def test_no_replica_is_eligible_if_min_insync_replicas_is_1() -> None:
    cluster = Three(least=1)
    cluster.fence(2, 3)
    assert cluster.sets() == (1, (1,), ())
    cluster.fence(1)
    assert cluster.sets() == (NO_LEADER, (), (1,))


def test_more_than_there_are_replicas_need_not_be_in_sync() -> None:
    cluster = Three(least=5)
    assert cluster.sets() == (1, (1, 2, 3), ())
    cluster.fence(2)
    assert cluster.sets() == (1, (1, 3), (2,))
    cluster.unfence(2)
    cluster.ask(1, 3, 2)
    assert cluster.sets() == (1, (1, 3, 2), ())


def test_an_eligible_replica_stays_so_until_enough_are_in_sync() -> None:
    cluster = Three(least=3)
    cluster.fence(2, 3)
    assert cluster.sets() == (1, (1,), (2, 3))
    cluster.unfence(3)
    assert cluster.sets() == (1, (1,), (2, 3)), "it may lead, it is not in sync"
    cluster.ask(1, 3)
    assert cluster.sets() == (1, (1, 3), (2,))
    cluster.unfence(2)
    cluster.ask(1, 3, 2)
    assert cluster.sets() == (1, (1, 3, 2), ())


def test_an_eligible_replica_leads_when_nobody_in_sync_can() -> None:
    cluster = Three()
    cluster.fence(3, 2, 1)
    assert cluster.sets() == (NO_LEADER, (), (1, 2))
    cluster.unfence(3)
    assert cluster.sets() == (NO_LEADER, (), (1, 2)), "it may miss what was acknowledged without it"
    before = cluster.part
    cluster.unfence(2)
    assert cluster.sets() == (2, (2,), (1,))
    assert cluster.part.leader_epoch == before.leader_epoch + 1
    assert cluster.part.partition_epoch == before.partition_epoch + 1


def test_a_leader_that_goes_is_followed_by_an_active_eligible_replica() -> None:
    cluster = Three()
    cluster.fence(3)
    fell_behind(cluster, 2)
    assert cluster.sets() == (1, (1,), (2,))
    cluster.fence(1)
    assert cluster.sets() == (2, (2,), (1,))


def test_a_power_loss_of_the_last_in_sync_replica_leaves_the_leadership_to_one_that_has_everything() -> None:
    """Replica 3 loses power while its session lasts, 2 leaves by a controlled shutdown, 3 is back first."""
    cluster = Three()
    cluster.fence(1)
    stopped(cluster, 2)
    assert cluster.sets() == (3, (3,), (2,))
    cluster.fence(3)
    cluster.restart(3, whole=False)
    assert cluster.sets() == (NO_LEADER, (), (2,))
    cluster.unfence(3)
    assert cluster.sets() == (NO_LEADER, (), (2,))
    cluster.restart(2, whole=True)
    cluster.unfence(2)
    assert cluster.sets() == (2, (2,), ())


@pytest.mark.parametrize("whole", [True, False])
def test_a_restart_keeps_an_eligible_replica_eligible_if_its_data_is_whole(whole: bool) -> None:
    cluster = Three()
    cluster.fence(2, 3)
    assert cluster.sets() == (1, (1,), (3,))
    cluster.restart(3, whole=whole)
    assert cluster.sets() == (1, (1,), (3,) if whole else ())


def test_a_word_holds_through_registrations_that_the_broker_could_not_note() -> None:
    cluster = Three()
    cluster.fence(2, 3)
    first = cluster.metadata.image.brokers[3].epoch
    for _ in range(3):
        cluster.restart(3, word=first)
        assert cluster.sets() == (1, (1,), (3,))
    cluster.metadata.image = cluster.metadata.replayed()
    cluster.restart(3, word=first)
    assert cluster.sets() == (1, (1,), (3,)), "the journal knows it too"
    second = cluster.metadata.image.brokers[3].epoch
    cluster.restart(3, word=second)
    cluster.restart(3, word=first)
    assert cluster.sets() == (1, (1,), ()), "it had noted a later one"


def test_once_it_was_unfenced_only_the_word_of_that_epoch_counts() -> None:
    cluster = Three()
    cluster.fence(2, 3)
    first = cluster.metadata.image.brokers[3].epoch
    cluster.restart(3, word=first)
    cluster.unfence(3)
    cluster.fence(3)
    assert cluster.sets() == (1, (1,), (3,))
    cluster.restart(3, word=first)
    assert cluster.sets() == (1, (1,), ()), "this folder is older than what it acknowledged since"


def test_a_word_from_before_a_loss_or_from_another_journal_is_worth_nothing() -> None:
    cluster = Three(least=3)
    cluster.fence(3)
    first = cluster.metadata.image.brokers[3].epoch
    cluster.restart(3, whole=False)
    assert cluster.sets() == (1, (1, 2), ())
    cluster.unfence(3)
    cluster.ask(1, 2, 3)
    cluster.fence(3)
    assert cluster.sets() == (1, (1, 2), (3,))
    cluster.restart(3, word=first)
    assert cluster.sets() == (1, (1, 2), ())
    cluster.unfence(3)
    cluster.ask(1, 2, 3)
    cluster.fence(3)
    cluster.restart(3, word=10_000)
    assert cluster.sets() == (1, (1, 2), ())


def test_the_last_of_all_that_had_everything_leads_with_what_it_has() -> None:
    cluster = Three()
    cluster.fence(3)
    cluster.fence(2)
    cluster.restart(2, whole=False)
    assert cluster.sets() == (1, (1,), ())
    cluster.restart(1, whole=False)
    assert cluster.sets() == (NO_LEADER, (), (1,))
    cluster.restart(1, whole=False)
    cluster.unfence(1)
    assert cluster.sets() == (1, (1,), ())


def test_a_broker_that_is_unregistered_is_not_waited_for_unless_nobody_else_is_left() -> None:
    cluster = Three()
    cluster.fence(3, 2)
    cluster.metadata.commit(at_once(unregister(2, cluster.metadata.image, Sessions(9.0))))
    assert cluster.sets() == (1, (1,), ())
    cluster.metadata.commit(at_once(unregister(1, cluster.metadata.image, Sessions(9.0))))
    assert cluster.sets() == (NO_LEADER, (), (1,))


def test_an_unclean_election_makes_no_more_advanced_replica_eligible() -> None:
    cluster = Three()
    cluster.fence(3, 2, 1)
    cluster.unfence(3)
    elected = elections.elect(cluster.metadata.image.topics["t"], 0, ElectionType.UNCLEAN, cluster.metadata.image)
    cluster.metadata.write(elected)
    assert cluster.sets() == (3, (3,), ())


def test_an_election_that_is_asked_for_prefers_an_eligible_replica_to_an_unclean_one() -> None:
    cluster = Three()
    cluster.configure(UNCLEAN, "true")
    cluster.fence(1)
    cluster.ask(2)
    assert cluster.sets() == (2, (2,), (3,))
    cluster.unfence(1)
    cluster.fence(2)
    assert cluster.sets() == (3, (3,), (2,))


@pytest.mark.parametrize("topic", ["t", None])
def test_eligible_replicas_are_removed_when_min_insync_replicas_is_lowered(topic: str | None) -> None:
    cluster = Three()
    cluster.configure(MIN_INSYNC, "2", topic=None)
    if topic is None:
        cluster.configure(MIN_INSYNC, None)
    cluster.fence(2, 3)
    assert cluster.sets() == (1, (1,), (3,))
    before = cluster.part
    cluster.configure(MIN_INSYNC, "1", topic=topic)
    assert cluster.sets() == (1, (1,), ())
    assert (cluster.part.leader_epoch, cluster.part.partition_epoch) == (
        before.leader_epoch,
        before.partition_epoch + 1,
    )


def test_raising_min_insync_replicas_makes_no_replica_eligible() -> None:
    cluster = Three(least=1)
    cluster.fence(2)
    cluster.configure(MIN_INSYNC, "3")
    assert cluster.sets() == (1, (1, 3), ())
    cluster.fence(3)
    assert cluster.sets() == (1, (1,), (3,))


def test_the_number_is_the_topics_or_the_clusters_or_that_of_the_controllers_properties() -> None:
    cluster = Three()
    image = cluster.metadata.image
    cluster.configure(MIN_INSYNC, None)
    assert elections.min_insync("t", image) == 1
    image.defaults = ElectionDefaults(min_insync=4)
    assert elections.min_insync("t", image) == 4
    cluster.configure(MIN_INSYNC, "3", topic=None)
    assert elections.min_insync("t", image) == 3
    cluster.metadata.write(ConfigRecord(4, "1", MIN_INSYNC, "9"))
    assert elections.min_insync("t", image) == 3
    cluster.configure(MIN_INSYNC, "2")
    assert elections.min_insync("t", image) == 2


def test_a_controller_that_starts_with_a_lower_number_reviews_who_is_eligible() -> None:
    cluster = Three()
    cluster.configure(MIN_INSYNC, None)
    cluster.metadata.image.defaults = ElectionDefaults(min_insync=2)
    cluster.fence(2, 3)
    assert at_once(elections.reviewed(cluster.metadata.image)) == []
    cluster.metadata.image.defaults = ElectionDefaults(min_insync=1)
    cluster.metadata.write(*at_once(elections.reviewed(cluster.metadata.image)))
    assert cluster.sets() == (1, (1,), ())


def test_replicas_that_a_reassignment_takes_away_are_not_eligible() -> None:
    cluster = Three()
    cluster.fence(2, 3)
    assert cluster.sets() == (1, (1,), (3,))
    cluster.metadata.write(*reassign("t", 0, [1, 4], cluster.metadata.image))
    assert cluster.sets() == (1, (1,), (3,)), "still a replica"
    cluster.ask(1, 4)
    assert (cluster.part.replicas, *cluster.sets()) == ((1, 4), 1, (1, 4), ())


def test_a_reassignment_may_rest_on_an_eligible_replica() -> None:
    cluster = Three()
    cluster.metadata.write(*reassign("t", 0, [1, 4], cluster.metadata.image))
    cluster.fence(3, 2, 1)
    assert cluster.sets() == (NO_LEADER, (), (1, 2))
    cluster.metadata.write(*reassign("t", 0, [2, 4], cluster.metadata.image))
    assert (cluster.part.replicas, *cluster.sets()) == ((2, 4, 1, 3), NO_LEADER, (), (2, 1))
    cluster.metadata.write(*reassign("t", 0, None, cluster.metadata.image))
    assert (cluster.part.replicas, *cluster.sets()) == ((2, 1, 3), NO_LEADER, (), (2, 1))


@pytest.mark.parametrize("target", [[1, 2, 3], None])
def test_a_reassignment_does_not_leave_out_the_only_one_that_has_everything(target: list[int] | None) -> None:
    cluster = Three(least=1)
    cluster.metadata.broker(5, fenced=True)
    cluster.metadata.write(*reassign("t", 0, [4, 5], cluster.metadata.image))
    cluster.ask(1, 2, 3, 4)
    cluster.fence(1, 2, 3, 4)
    assert cluster.sets() == (NO_LEADER, (), (4,))
    with pytest.raises(KafkaError) as refused:
        reassign("t", 0, target, cluster.metadata.image)
    assert refused.value.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert target is None or "Include one of [4]" in str(refused.value)


def test_a_set_of_an_older_journal_whose_last_member_is_away_is_read_as_it_is() -> None:
    cluster = Three()
    topic_id = cluster.metadata.image.topics["t"].id
    cluster.metadata.write(PartitionRecord(topic_id, 0, (1, 2, 3), (3,), NO_LEADER, 5, 5))
    cluster.fence(3)
    assert cluster.sets() == (NO_LEADER, (), (3,))
    cluster.metadata.write(PartitionRecord(topic_id, 0, (1, 2, 3), (3,), NO_LEADER, 5, 9))
    cluster.unfence(3)
    assert cluster.sets() == (3, (3,), ())


def test_an_unchanged_partition_stays_the_same_object() -> None:
    cluster = Three()
    cluster.fence(2, 3)
    part = cluster.part
    assert part.elr
    assert changed_partition(part, part, candidates("t", cluster.metadata.image)) is part
    cluster.fence(3)
    assert cluster.part is part
