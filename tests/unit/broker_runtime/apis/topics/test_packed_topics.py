"""Topics that are packed by hand equal the message's schema output byte for byte."""

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from broker_runtime.apis.request.authorization.authorized_operations import NOT_ASKED, ON_CLUSTER, ON_TOPIC
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.topics import metadata
from broker_runtime.apis.topics.metadata import API
from broker_runtime.apis.topics.packed_topics import PackedTopics
from broker_runtime.errors import ErrorCode
from broker_runtime.metadata.areas.topics import PartitionRecord, Topic
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.topic_names import INTERNAL_TOPICS
from broker_runtime.slicing.steps import at_once
from broker_runtime.wire.messages import encode_response_body
from tests.support.requests.calls import a_call
from tests.support.worlds.controller import Metadata

VERSIONS = range(API.versions[0], API.versions[1] + 1)


def a_cluster() -> Metadata:
    """A cluster with partitions in every state."""
    cluster = Metadata()
    cluster.broker(1, rack="a")
    cluster.broker(2, "INTERNAL")
    cluster.broker(3, fenced=True)
    for number in range(200):
        name = f"topic-{number}" if number else "__consumer_offsets"
        topic_id = cluster.topic(name, (1, 2, 3))
        for index, leader in enumerate((1, 2, 3, -1, 9)):
            record = PartitionRecord(topic_id, index, (1, 2, 3, 9), (1,), leader, 7, 8)
            cluster.write(record)
    return cluster


def fields_of_topic(topic: Topic, call: Call, image: MetadataImage, operations: int) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.NONE,
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.name in INTERNAL_TOPICS,
        "partitions": [
            metadata.partition_fields(index, part, call.listener, image, call.version)
            for index, part in sorted(topic.partitions.items())
        ],
        "topic_authorized_operations": operations,
    }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("cluster", [Metadata(), a_cluster()], ids=["empty", "of all kinds"])
@pytest.mark.parametrize("asked", [(NOT_ASKED, NOT_ASKED), (ON_TOPIC, ON_CLUSTER)], ids=["plain", "with operations"])
def test_packed_topics_equal_the_schemas_encoding(cluster: Metadata, version: int, asked: tuple[int, int]) -> None:
    call = a_call(API, version)
    context: Any = SimpleNamespace(image=cluster.image, cluster_id="c")
    on_topics, on_cluster = asked
    topics = [
        fields_of_topic(topic, call, cluster.image, on_topics) for _, topic in sorted(cluster.image.topics.items())
    ]
    expected = encode_response_body(API.key, version, metadata._answer(topics, call, context, on_cluster))
    pieces, error = at_once(metadata._about_all(call, context, asked))
    assert b"".join(pieces) == expected
    parts: list[Any] = [part for topic in topics for part in topic["partitions"]]
    assert error == next((part["error_code"] for part in parts if part["error_code"]), 0)


def test_nothing_of_it_is_left_to_the_garbage_collector() -> None:
    gc.disable()
    try:
        packed = weakref.ref(PackedTopics(MetadataImage(), "PLAINTEXT", 12))
        assert packed() is None
    finally:
        gc.enable()
