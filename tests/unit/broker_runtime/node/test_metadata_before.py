"""The metadata as observers of changes see it."""

from uuid import UUID

from broker_runtime.metadata.areas.cluster import FeatureLevelRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.node.metadata_before import MetadataNow
from tests.support.audit.changes import ORDERS, fill


def test_values_are_those_of_the_image_and_unknown_names_have_none() -> None:
    image = MetadataImage()
    fill(image)
    image.apply(FeatureLevelRecord("group.version", 1), image.next_offset)
    now = MetadataNow(image)

    assert (now.topic_name(ORDERS), now.topic_name(UUID(int=1))) == ("orders", None)
    assert (now.partitions("orders"), now.partitions("none")) == (2, None)
    assert (now.replicas("orders", 1), now.replicas("orders", 9), now.replicas("none", 0)) == ((2, 3), None, None)
    assert now.configs(2, "orders") == {"retention.ms": "1000"}
    assert now.configs(4, "") == {"log.cleaner.threads": "1"}
    assert [dict(now.configs(kind, name)) for kind, name in ((2, "none"), (4, "7"), (4, "x"), (32, "g"))] == [{}] * 4
    assert (now.quota((("user", "alice"),), "producer_byte_rate"), now.quota((("user", "bob"),), "x")) == (1000.0, None)
    assert (now.feature("group.version"), now.feature("none")) == (1, None)
