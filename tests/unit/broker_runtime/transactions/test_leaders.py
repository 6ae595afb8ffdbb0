"""The leader of a partition is the broker that the metadata names, while it lives."""

from broker_runtime.metadata.areas.brokers import RegisterBroker, UnfenceBroker
from broker_runtime.metadata.areas.topics import PartitionRecord, TopicRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.transactions.leaders import NO_LEADER, leaders_in
from tests.support.logs.logs import TOPIC_ID


def test_the_metadata_names_leaders_that_live() -> None:
    image = MetadataImage()
    leader_of = leaders_in(image)
    assert leader_of(("orders", 0)) is None
    image.apply(TopicRecord("orders", TOPIC_ID), 0)
    image.apply(PartitionRecord(TOPIC_ID, 0, (1,), (1,), 1, 0, 0), 1)
    assert leader_of(("orders", 0)) == NO_LEADER
    image.apply(RegisterBroker(1, TOPIC_ID, 2, ()), 2)
    assert leader_of(("orders", 0)) == NO_LEADER
    image.apply(UnfenceBroker(1, 2), 3)
    assert leader_of(("orders", 0)) == 1
    assert leader_of(("orders", 1)) is None
