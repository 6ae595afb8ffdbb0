"""Leaders, in-sync sets and epochs when brokers leave, return and stop (KIP-631's rules as Kafka applies them)."""

from dataclasses import replace

import pytest

from broker_runtime.controller.partitions import elections
from broker_runtime.controller.partitions.elections import Candidates, ElectionType, changed_partition
from broker_runtime.controller.registration import fence, stop, unfence
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.configs import ConfigRecord
from broker_runtime.metadata.areas.topics import Partition, PartitionRecord
from broker_runtime.metadata.image import ElectionDefaults, MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps, at_once
from tests.support.worlds.controller import Metadata

UNCLEAN = ConfigRecord(2, "t", "unclean.leader.election.enable", "true")


def three(*replicas: list[int]) -> Metadata:
    metadata = Metadata()
    for broker_id in (1, 2, 3):
        metadata.broker(broker_id)
    metadata.topic("t", *replicas)
    return metadata


def the(metadata: Metadata, index: int = 0) -> Partition:
    return metadata.image.topics["t"].partitions[index]


def shown(part: Partition) -> tuple[int, tuple[int, ...], int, int]:
    return part.leader, part.isr, part.leader_epoch, part.partition_epoch


def fenced(metadata: Metadata, *brokers: int) -> Metadata:
    for broker_id in brokers:
        metadata.write(*at_once(fence(metadata.image.brokers[broker_id], metadata.image)))
    return metadata


def unfenced(metadata: Metadata, broker_id: int) -> Metadata:
    metadata.write(*at_once(unfence(metadata.image.brokers[broker_id], metadata.image)))
    return metadata


def kept(metadata: Metadata, isr: tuple[int, ...], leader: int) -> None:
    part, topic = the(metadata), metadata.image.topics["t"]
    metadata.write(
        PartitionRecord(topic.id, 0, part.replicas, isr, leader, part.leader_epoch, part.partition_epoch + 1)
    )


def test_a_leader_that_is_fenced_is_followed_by_the_first_in_sync_replica_in_the_order_of_the_assignment() -> None:
    metadata = fenced(three([1, 3, 2]), 1)
    assert shown(the(metadata)) == (3, (3, 2), 1, 1)


def test_a_follower_that_is_fenced_leaves_the_in_sync_set_and_the_leader_epoch_stays() -> None:
    metadata = fenced(three([1, 3, 2]), 2)
    assert shown(the(metadata)) == (1, (1, 3), 0, 1)


def test_a_replica_that_was_not_in_sync_is_passed_over() -> None:
    metadata = three([1, 3, 2])
    kept(metadata, (1, 2), 1)
    fenced(metadata, 1)
    assert shown(the(metadata)) == (2, (2,), 1, 2)


def test_the_last_in_sync_replica_is_eligible_and_leads_again_when_it_is_back() -> None:
    metadata = fenced(three([1, 2, 3]), 1, 2, 3)
    assert (*shown(the(metadata)), the(metadata).elr) == (-1, (), 3, 3, (3,))
    unfenced(metadata, 1)
    assert (*shown(the(metadata)), the(metadata).elr) == (-1, (), 3, 3, (3,))
    unfenced(metadata, 3)
    assert (*shown(the(metadata)), the(metadata).elr) == (3, (3,), 4, 4, ())


def test_a_broker_that_is_not_concerned_changes_nothing() -> None:
    metadata = three([1, 2])
    before = the(metadata)
    fenced(metadata, 3)
    assert the(metadata) is before


@pytest.mark.parametrize(
    ("configs", "leader", "isr"),
    [
        ([], -1, ()),
        ([UNCLEAN], 2, (2,)),
        ([ConfigRecord(4, "", "unclean.leader.election.enable", "true")], 2, (2,)),
        (
            [
                ConfigRecord(4, "", "unclean.leader.election.enable", "true"),
                ConfigRecord(2, "t", "unclean.leader.election.enable", "false"),
            ],
            -1,
            (),
        ),
    ],
)
def test_a_leader_that_may_miss_records_is_elected_only_where_the_topic_allows_it(
    configs: list[MetadataRecord], leader: int, isr: tuple[int, ...]
) -> None:
    metadata = three([1, 2, 3])
    metadata.write(*configs)
    kept(metadata, (1,), 1)
    fenced(metadata, 1)
    assert (the(metadata).leader, the(metadata).isr) == (leader, isr)


def test_a_broker_that_comes_back_may_lead_uncleanly_too() -> None:
    metadata = fenced(three([1, 2]), 1, 2)
    metadata.write(UNCLEAN)
    unfenced(metadata, 1)
    assert (the(metadata).leader, the(metadata).isr) == (1, (1,))


def test_unclean_leaders_are_elected_when_it_becomes_allowed() -> None:
    metadata = fenced(three([1, 2], [2, 1]), 1, 2)
    unfenced(metadata, 1)
    assert [the(metadata, index).leader for index in (0, 1)] == [-1, -1]
    other = ConfigRecord(2, "t", "retention.ms", "1")
    metadata.write(other)
    assert at_once(elections.consequences([other], metadata.image)) == at_once(elections.reviewed(metadata.image)) == []
    metadata.write(UNCLEAN)
    metadata.write(*at_once(elections.consequences([UNCLEAN], metadata.image)))
    assert [the(metadata, index).leader for index in (0, 1)] == [1, 1]


def test_a_stopping_broker_leaves_all_in_sync_sets_but_is_not_fenced() -> None:
    metadata = three([1, 2], [2, 1], [1])
    metadata.write(*at_once(stop(metadata.image.brokers[1], metadata.image)))
    assert [shown(the(metadata, index)) for index in (0, 1, 2)] == [
        (2, (2,), 1, 1),
        (2, (2,), 0, 1),
        (-1, (), 1, 1),
    ]
    broker = metadata.image.brokers[1]
    assert (broker.fenced, broker.stopping_offset) == (False, metadata.image.offset)
    assert not elections.leads_any(1, metadata.image)


def test_a_stopping_broker_gets_no_leadership() -> None:
    metadata = three([1, 2], [2, 1])
    metadata.write(*at_once(stop(metadata.image.brokers[1], metadata.image)))
    fenced(metadata, 2)
    assert [the(metadata, index).leader for index in (0, 1)] == [-1, -1]


def test_preferred_replicas_lead_again_after_a_rebalance() -> None:
    metadata = three([1, 2, 3], [1, 3], [2, 1])
    fenced(metadata, 1)
    unfenced(metadata, 1)
    assert at_once(elections.rebalance(metadata.image)) == []
    kept(metadata, (1, 2, 3), 2)
    metadata.write(*at_once(elections.rebalance(metadata.image)))
    assert shown(the(metadata)) == (1, (1, 2, 3), 2, 3)
    assert [the(metadata, index).leader for index in (1, 2)] == [3, 2]
    assert at_once(elections.rebalance(metadata.image)) == []


@pytest.mark.parametrize(
    ("isr", "leader", "waits"),
    [
        ((1, 2), 2, True),
        ((1, 2), 1, False),
        ((2, 3), 2, False),
        ((9, 2), 2, False),
    ],
    ids=["it could lead", "it leads", "it is not in sync", "it is not there"],
)
def test_when_a_preferred_replica_waits(isr: tuple[int, ...], leader: int, waits: bool) -> None:
    metadata = three([1, 2, 3])
    record = PartitionRecord(metadata.image.topics["t"].id, 0, (isr[0] if isr[0] == 9 else 1, 2, 3), isr, leader, 1, 1)
    metadata.write(record)
    assert elections.preferred_waits(record, metadata.image) is waits
    fenced(metadata, 1)
    assert not elections.preferred_waits(record, metadata.image)


def test_a_rebalance_moves_so_many_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elections, "REBALANCED_MAX", 2)
    metadata = three(*[[1, 2]] * 5)
    topic_id = metadata.image.topics["t"].id
    metadata.write(*(PartitionRecord(topic_id, index, (1, 2), (1, 2), 2, 0, 0) for index in range(5)))
    assert len(at_once(elections.rebalance(metadata.image))) == 2


@pytest.mark.parametrize(
    ("isr", "leader", "kind", "outcome"),
    [
        ((1, 2), 2, ElectionType.PREFERRED, (1, (1, 2))),
        ((1, 2), 1, ElectionType.PREFERRED, ErrorCode.ELECTION_NOT_NEEDED),
        ((2,), 2, ElectionType.PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        ((2,), 2, ElectionType.UNCLEAN, ErrorCode.ELECTION_NOT_NEEDED),
        ((3,), -1, ElectionType.UNCLEAN, (1, (1,))),
        ((3,), -1, ElectionType.PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
    ],
)
def test_elections_that_are_asked_for(
    isr: tuple[int, ...], leader: int, kind: ElectionType, outcome: ErrorCode | tuple[int, tuple[int, ...]]
) -> None:
    metadata = fenced(three([1, 2, 3]), 3)
    kept(metadata, isr, leader)
    if isinstance(outcome, ErrorCode):
        with pytest.raises(KafkaError) as refused:
            elections.elect(metadata.image.topics["t"], 0, kind, metadata.image)
        assert refused.value.code == outcome
        return
    metadata.write(elections.elect(metadata.image.topics["t"], 0, kind, metadata.image))
    assert (the(metadata).leader, the(metadata).isr) == outcome


def test_no_leader_can_be_elected_while_all_replicas_are_fenced() -> None:
    metadata = fenced(three([1, 2]), 1, 2)
    with pytest.raises(KafkaError) as refused:
        elections.elect(metadata.image.topics["t"], 0, ElectionType.UNCLEAN, metadata.image)
    assert refused.value.code == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    with pytest.raises(KafkaError) as refused:
        elections.elect(metadata.image.topics["t"], 7, ElectionType.UNCLEAN, metadata.image)
    assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_settled_partition_is_unchanged() -> None:
    part = Partition((1, 2), (1, 2), 1, 5, 7)
    assert changed_partition(part, part, Candidates(frozenset({1, 2}), 1)) is part
    assert changed_partition(part, part, Candidates(frozenset({1, 2}), 1, prefer_first=True)) is part


def test_the_controllers_own_properties_are_the_default_of_the_defaults() -> None:
    metadata = three([1, 2])
    metadata.image.defaults = ElectionDefaults(unclean=True)
    assert elections.unclean_allowed("t", metadata.image)
    metadata.write(ConfigRecord(4, "", "unclean.leader.election.enable", "false"))
    assert not elections.unclean_allowed("t", metadata.image)
    metadata.write(UNCLEAN)
    assert elections.unclean_allowed("t", metadata.image)


def many(topics: int = 4, partitions: int = 50) -> Metadata:
    """Topics on the brokers 1 and 2; broker 1 leads all partitions."""
    metadata = Metadata()
    for broker_id in (1, 2):
        metadata.broker(broker_id)
    for number in range(topics):
        metadata.topic(f"t{number}", *[[1, 2]] * partitions)
    return metadata


def steps_of(decision: Steps[list[MetadataRecord]]) -> tuple[int, list[MetadataRecord]]:
    """Number of steps of a decision, and its records."""
    steps = 1
    while True:
        try:
            next(decision)
        except StopIteration as ended:
            return steps, ended.value
        steps += 1


def test_a_broker_leaves_and_comes_back_in_a_step_for_each_partition_that_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    metadata, asked = many(), list[str]()
    real = elections.candidates

    def noted(topic: str, image: MetadataImage, active: frozenset[int] | None = None) -> elections.Candidates:
        asked.append(topic)
        return real(topic, image, active)

    monkeypatch.setattr(elections, "candidates", noted)
    broker = metadata.image.brokers[1]
    steps, records = steps_of(fence(broker, metadata.image))
    assert len(records) == 201
    assert steps >= 200
    assert asked == ["t0", "t1", "t2", "t3"], "the rules of a topic are made once"
    metadata.write(*records)
    fenced(metadata, 2)
    steps, records = steps_of(unfence(broker, metadata.image))
    assert steps >= len(records) - 1
    metadata.write(*records)


def test_partitions_that_stay_as_they_are_take_steps_too() -> None:
    metadata = many(topics=1, partitions=1_000)
    metadata.broker(3)
    steps, records = steps_of(elections.leave(3, metadata.image))
    assert records == []
    assert steps >= 10


def test_preferred_leaders_are_elected_in_steps() -> None:
    metadata = many(topics=2, partitions=600)
    fenced(metadata, 1)
    unfenced(metadata, 1)
    for topic in list(metadata.image.topics.values()):
        for index, part in list(topic.partitions.items()):
            back = replace(part, isr=(1, 2), elr=(), partition_epoch=part.partition_epoch + 1)
            metadata.write(back.record(topic.id, index))
    steps, records = steps_of(elections.rebalance(metadata.image))
    assert len(records) == elections.REBALANCED_MAX
    assert steps >= len(records)


@pytest.mark.parametrize(
    ("kind", "name", "reviewed"),
    [(2, "t1", ["t1"]), (2, "gone", []), (4, "1", []), (4, "", ["t0", "t1", "t2", "t3"])],
    ids=["of a topic", "of a topic that is gone", "of one broker, which does not count", "of the cluster"],
)
def test_only_topics_whose_rules_change_are_reviewed_in_steps(kind: int, name: str, reviewed: list[str]) -> None:
    metadata = fenced(many(), 2, 1)
    record = ConfigRecord(kind, name, "unclean.leader.election.enable", "true")
    metadata.write(record)
    unfenced(metadata, 2)
    for topic in metadata.image.topics.values():
        for index, part in list(topic.partitions.items()):
            metadata.write(replace(part, leader=-1, partition_epoch=part.partition_epoch + 1).record(topic.id, index))
    steps, records = steps_of(elections.consequences([record], metadata.image))
    ids = {record.topic_id for record in records if isinstance(record, PartitionRecord)}
    changed = {topic.name for topic in metadata.image.topics.values() if topic.id in ids}
    assert changed == set(reviewed)
    assert steps >= 50 * len(reviewed)
