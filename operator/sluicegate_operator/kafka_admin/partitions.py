"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455)."""

from collections.abc import Collection, Mapping

from kio.schema.alter_partition_reassignments.v0.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.alter_partition_reassignments.v0.response import AlterPartitionReassignmentsResponse
from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.list_partition_reassignments.v0.response import ListPartitionReassignmentsResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from sluicegate_operator.kafka_admin.connecting.exchange import Exchange
from sluicegate_operator.kafka_admin.errors import check, error_name
from sluicegate_operator.kafka_admin.topics import CONTROLLER_TIMEOUT
from sluicegate_operator.kafka_admin.views import Partition, ReassignmentView, by_topic


def reassign(
    targets: Mapping[Partition, Collection[int]],
) -> Exchange[AlterPartitionReassignmentsResponse, dict[Partition, str]]:
    topics = tuple(
        ReassignableTopic(
            name=TopicName(name),
            partitions=tuple(
                ReassignablePartition(
                    partition_index=i32(index), replicas=tuple(BrokerId(id_) for id_ in targets[name, index])
                )
                for index in indexes
            ),
        )
        for name, indexes in by_topic(targets)
    )
    request = AlterPartitionReassignmentsRequest(timeout=CONTROLLER_TIMEOUT, topics=topics)

    def read(reply: AlterPartitionReassignmentsResponse) -> dict[Partition, str]:
        check(reply.error_code, reply.error_message, "reassigning partitions")
        return {
            (topic.name, partition.partition_index): partition.error_message or error_name(partition.error_code)
            for topic in reply.responses
            for partition in topic.partitions
            if partition.error_code is not ErrorCode.none
        }

    return Exchange(request, AlterPartitionReassignmentsResponse, read)


def reassignments() -> Exchange[ListPartitionReassignmentsResponse, dict[Partition, ReassignmentView]]:
    request = ListPartitionReassignmentsRequest(timeout=CONTROLLER_TIMEOUT, topics=None)

    def read(reply: ListPartitionReassignmentsResponse) -> dict[Partition, ReassignmentView]:
        check(reply.error_code, reply.error_message, "listing reassignments")
        return {
            (topic.name, one.partition_index): ReassignmentView(
                tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
            )
            for topic in reply.topics
            for one in topic.partitions
        }

    return Exchange(request, ListPartitionReassignmentsResponse, read)
