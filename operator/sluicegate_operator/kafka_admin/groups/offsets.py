"""OffsetFetch and OffsetCommit at a group's coordinator, ListOffsets at the partitions' leaders."""

from collections.abc import Collection, Mapping

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v6.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.list_offsets.v6.response import ListOffsetsResponse
from kio.schema.offset_commit.v8.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_commit.v8.response import OffsetCommitResponse
from kio.schema.offset_fetch.v8.request import OffsetFetchRequest, OffsetFetchRequestGroup
from kio.schema.offset_fetch.v8.response import OffsetFetchResponse
from kio.schema.types import BrokerId, GroupId, TopicName
from kio.static.primitive import i8, i32, i64

from sluicegate_operator.kafka_admin.connecting.exchange import Exchange
from sluicegate_operator.kafka_admin.errors import check, error_name, only
from sluicegate_operator.kafka_admin.views import Partition, by_topic

LATEST, EARLIEST = -1, -2
"""Special times of ListOffsets; other times are milliseconds since 1970."""

NO_OFFSET = -1
CLIENT = BrokerId(-1)
NO_MEMBER = i32(-1)


def fetch_offsets(group_id: str) -> Exchange[OffsetFetchResponse, dict[Partition, int]]:
    """Return the request for all committed offsets of a group. A group that does not exist has none."""
    subject = f"requesting the offsets of group {group_id}"

    def read(reply: OffsetFetchResponse) -> dict[Partition, int]:
        group = only(reply.groups, subject)
        check(group.error_code, None, subject)
        found: dict[Partition, int] = {}
        for topic in group.topics:
            for partition in topic.partitions:
                check(partition.error_code, None, f"{subject}, topic {topic.name}")
                if partition.committed_offset != NO_OFFSET:
                    found[topic.name, partition.partition_index] = partition.committed_offset
        return found

    asked = OffsetFetchRequestGroup(group_id=GroupId(group_id), topics=None)
    return Exchange(OffsetFetchRequest(groups=(asked,)), OffsetFetchResponse, read)


def commit_offsets(
    group_id: str, offsets: Mapping[Partition, int]
) -> Exchange[OffsetCommitResponse, dict[Partition, str]]:
    """Return the request that commits offsets of a group without members.

    A coordinator accepts such a commit while the group has no members. The result has Kafka's name of the error for
    each refused partition.
    """
    topics = tuple(
        OffsetCommitRequestTopic(
            name=TopicName(topic),
            partitions=tuple(
                OffsetCommitRequestPartition(
                    partition_index=i32(index), committed_offset=i64(offsets[topic, index]), committed_metadata=""
                )
                for index in indexes
            ),
        )
        for topic, indexes in by_topic(offsets)
    )
    request = OffsetCommitRequest(
        group_id=GroupId(group_id), generation_id_or_member_epoch=NO_MEMBER, member_id="", topics=topics
    )

    def read(reply: OffsetCommitResponse) -> dict[Partition, str]:
        return {
            (topic.name, partition.partition_index): error_name(partition.error_code)
            for topic in reply.topics
            for partition in topic.partitions
            if partition.error_code is not ErrorCode.none
        }

    return Exchange(request, OffsetCommitResponse, read)


def list_offsets(
    partitions: Collection[Partition], time_ms: int
) -> Exchange[ListOffsetsResponse, dict[Partition, int]]:
    """Return the request for the first offset at or after `time_ms`, or EARLIEST or LATEST, of led partitions.

    A partition without such a record has NO_OFFSET; a partition that this broker does not lead (any more) is left out.
    """
    topics = tuple(
        ListOffsetsTopic(
            name=TopicName(topic),
            partitions=tuple(
                ListOffsetsPartition(partition_index=i32(index), timestamp=i64(time_ms)) for index in indexes
            ),
        )
        for topic, indexes in by_topic(partitions)
    )

    def read(reply: ListOffsetsResponse) -> dict[Partition, int]:
        return {
            (topic.name, partition.partition_index): partition.offset
            for topic in reply.topics
            for partition in topic.partitions
            if partition.error_code is ErrorCode.none
        }

    return Exchange(
        ListOffsetsRequest(replica_id=CLIENT, isolation_level=i8(0), topics=topics), ListOffsetsResponse, read
    )
