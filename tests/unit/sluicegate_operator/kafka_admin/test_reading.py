"""Reading replies: kio's output is read back unchanged, and a peer's bytes can do no more than raise."""

import struct
import uuid
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.api_versions.v3.response import FinalizedFeatureKey
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kio.schema.describe_groups.v5.response import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v11.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kio.schema.types import BrokerId, GroupId, TopicName
from kio.static.primitive import i8, i16, i32, i64
from kio.static.protocol import ResponsePayload

from sluicegate_operator.kafka_admin.connecting.frames import FrameSplitter, decode_reply
from sluicegate_operator.kafka_admin.connecting.reading import MalformedError
from sluicegate_operator.kafka_admin.errors import KafkaApiError
from tests.support.fakes.scripted_peer import NO_THROTTLE, SERVED, encode, versions

CONFIGS = DescribeConfigsResponse(
    throttle_time=NO_THROTTLE,
    results=(
        DescribeConfigsResult(
            error_code=ErrorCode.none,
            error_message=None,
            resource_type=i8(4),
            resource_name="1",
            configs=(
                DescribeConfigsResourceResult(
                    name="max.connections",
                    value="7",
                    read_only=False,
                    config_source=i8(2),
                    is_sensitive=False,
                    synonyms=(DescribeConfigsSynonym(name="max.connections", value=None, source=i8(2)),),
                    config_type=i8(3),
                    documentation="words",
                ),
            ),
        ),
    ),
)
METADATA = MetadataResponse(
    throttle_time=NO_THROTTLE,
    brokers=(MetadataResponseBroker(node_id=BrokerId(1), host="h", port=i32(1), rack=None),),
    cluster_id="c",
    controller_id=BrokerId(1),
    topics=(
        MetadataResponseTopic(
            error_code=ErrorCode.none,
            name=TopicName("t"),
            topic_id=uuid.UUID(int=5),
            partitions=(
                MetadataResponsePartition(
                    error_code=ErrorCode.leader_not_available,
                    partition_index=i32(0),
                    leader_id=BrokerId(1),
                    replica_nodes=(BrokerId(1), BrokerId(2)),
                ),
            ),
        ),
    ),
)
FEATURES = versions(SERVED)
TAGGED = type(FEATURES)(
    error_code=FEATURES.error_code,
    api_keys=FEATURES.api_keys,
    throttle_time=FEATURES.throttle_time,
    finalized_features_epoch=i64(9),
    finalized_features=(
        FinalizedFeatureKey(name="metadata.version", max_version_level=i16(9), min_version_level=i16(1)),
    ),
)
GROUPS = DescribeGroupsResponse(
    throttle_time=NO_THROTTLE,
    groups=(
        DescribedGroup(
            error_code=ErrorCode.none,
            group_id=GroupId("g"),
            group_state="Stable",
            protocol_type="consumer",
            protocol_data="range",
            members=(
                DescribedGroupMember(
                    member_id="m",
                    client_id="c",
                    client_host="/127.0.0.1",
                    member_metadata=b"",
                    member_assignment=bytes(range(200)),
                ),
            ),
        ),
    ),
)
REPLIES: dict[str, tuple[ResponsePayload, bytes]] = {
    "configs": (CONFIGS, b"\x00\x00\x00\x07\x00"),
    "metadata": (METADATA, b"\x00\x00\x00\x07\x00"),
    "groups": (GROUPS, b"\x00\x00\x00\x07\x00"),
    "tagged": (TAGGED, b"\x00\x00\x00\x07"),
}


@pytest.mark.parametrize("name", REPLIES)
def test_a_good_reply_passes_whole(name: str) -> None:
    reply, header = REPLIES[name]
    assert decode_reply(type(reply), header + encode(reply)) == reply


@pytest.mark.parametrize("name", REPLIES)
def test_every_truncation_is_refused(name: str) -> None:
    reply, header = REPLIES[name]
    frame = header + encode(reply)
    for size in range(len(frame)):
        with pytest.raises(MalformedError):
            decode_reply(type(reply), frame[:size])


def test_a_tagged_field_that_is_newer_than_the_client_is_skipped() -> None:
    frame = (b"\x00\x00\x00\x07\x00" + encode(CONFIGS))[:-1] + b"\x01\x63\x03abc"
    assert decode_reply(DescribeConfigsResponse, frame) == CONFIGS


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff", b"\x80\x80\x80\x80\x80\x01"])
def test_a_length_that_the_bytes_cannot_hold_is_refused_before_memory_is_reserved(length: bytes) -> None:
    with pytest.raises(MalformedError):
        decode_reply(DescribeConfigsResponse, b"\x00\x00\x00\x07\x00" + bytes(4) + length)


@pytest.mark.parametrize("name", REPLIES)
@given(data=st.data())
def test_damaged_bytes_do_no_more_than_raise(name: str, data: st.DataObject) -> None:
    reply, header = REPLIES[name]
    frame = bytearray(header + encode(reply))
    for position in data.draw(st.lists(st.integers(0, len(frame) - 1), min_size=1, max_size=4)):
        frame[position] = data.draw(st.integers(0, 255))
    outcome: object
    try:
        outcome = decode_reply(type(reply), bytes(frame))
    except (MalformedError, KafkaApiError) as error:
        outcome = error
    assert isinstance(outcome, type(reply) | MalformedError | KafkaApiError)


@given(sizes=st.lists(st.integers(4, 40), max_size=6), cuts=st.lists(st.integers(0, 300)))
def test_frames_come_out_whole_however_the_bytes_arrive(sizes: list[int], cuts: list[int]) -> None:
    frames = [bytes([index]) * size for index, size in enumerate(sizes)]
    stream = b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    splitter = FrameSplitter()
    out = [frame for start, end in pairwise(edges) for frame in splitter.feed(stream[start:end])]
    assert out == frames
