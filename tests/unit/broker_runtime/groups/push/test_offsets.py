"""The offsets from which a group continues: those of its topics, not of earlier topics with their names."""

from uuid import UUID

import pytest

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.group import Committer
from broker_runtime.groups.push.state.calls import Ping, StopFetcher
from tests.support.groups.push_groups import SESSION_S, Consumer, Coordinator, answer_all

T0 = ("t", 0)


@pytest.fixture
def coordinator() -> Coordinator:
    made = Coordinator()
    made.topic("t", 1)
    return made


def make_anew(coordinator: Coordinator) -> None:
    coordinator.delete_topic("t")
    coordinator.topic("t", 1)


def tell(coordinator: Coordinator, consumer: Consumer, offset: int) -> None:
    """Report the offset with answers to pings, until it is committed."""
    consumer.read_to(offset)
    for _ in range(3):
        coordinator.wait(SESSION_S / 3)
        answer_all([consumer])


def test_offsets_of_a_deleted_topic_do_not_apply_to_a_new_topic_with_its_name(
    coordinator: Coordinator,
) -> None:
    (consumer,) = coordinator.consumers("a")
    consumer.read_to(500)
    make_anew(coordinator)
    consumer.answer(StopFetcher)
    assert coordinator.committed() == {}
    answer_all([consumer])
    assert consumer.positions == {T0: -2}


def test_offsets_from_pings_and_of_lost_consumers_do_not_apply_to_a_recreated_topic(coordinator: Coordinator) -> None:
    (consumer,) = coordinator.consumers("a")
    coordinator.log_refuses = True
    tell(coordinator, consumer, 500)
    coordinator.log_refuses = False
    coordinator.wait(SESSION_S / 3)
    make_anew(coordinator)
    consumer.answer(Ping)
    assert coordinator.committed() == {}
    consumer.close()
    assert coordinator.committed() == {}


def test_offsets_left_of_a_deleted_topic_do_not_apply_to_a_new_topic_with_its_name(
    coordinator: Coordinator,
) -> None:
    """The coordinator was not there at that time, or has not processed the deletion yet."""
    (consumer,) = coordinator.consumers("a")
    tell(coordinator, consumer, 500)
    assert coordinator.committed() == {T0: 500}
    make_anew(coordinator)
    answer_all([consumer])
    assert coordinator.committed() == {T0: 500}
    assert consumer.positions == {T0: -2}
    tell(coordinator, consumer, 7)
    consumer.close()
    assert coordinator.committed() == {T0: 7}, "they do not stand in the way of lower ones either"
    (other,) = coordinator.consumers("b")
    assert other.positions == {T0: 7}


def test_a_consumer_cannot_commit_partitions_of_another_owner(coordinator: Coordinator) -> None:
    """Such a commit was in flight during the rebalance, and would reset what the next owner has reported."""
    coordinator.topic("u", 2)
    first, _ = coordinator.consumers("a", "b", topic_count='{"u": 1}')
    topic_id = coordinator.environment.image.topics["u"].id
    ((_, own),) = first.positions
    coordinator.group.check_commit(Committer("a"), [(topic_id, own), (None, 7)])
    for others in ((topic_id, 1 - own), (UUID(int=7), own)):
        with pytest.raises(KafkaError) as raised:
            coordinator.group.check_commit(Committer("a"), [(topic_id, own), others])
        assert raised.value.code is ErrorCode.ILLEGAL_GENERATION
