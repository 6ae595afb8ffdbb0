"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455)."""

from collections.abc import Collection, Iterable, Mapping
from itertools import groupby

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

from sluicegate_operator.kafka_admin.errors import check, error_name
from sluicegate_operator.kafka_admin.exchange import Exchange
from sluicegate_operator.kafka_admin.topics import CONTROLLER_TIMEOUT
from sluicegate_operator.kafka_admin.views import Partition


def reassign(
    targets: Mapping[Partition, Collection[int] | None],
) -> Exchange[AlterPartitionReassignmentsResponse, dict[Partition, str]]:
    topics = tuple(
        ReassignableTopic(
            name=TopicName(name),
            partitions=tuple(
                ReassignablePartition(partition_index=i32(index), replicas=_replicas(targets[name, index]))
                for index in indexes
            ),
        )
        for name, indexes in _by_topic(targets)
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


def reassignments() -> Exchange[ListPartitionReassignmentsResponse, tuple[Partition, ...]]:
    request = ListPartitionReassignmentsRequest(timeout=CONTROLLER_TIMEOUT, topics=None)

    def read(reply: ListPartitionReassignmentsResponse) -> tuple[Partition, ...]:
        check(reply.error_code, reply.error_message, "listing reassignments")
        return tuple((topic.name, p.partition_index) for topic in reply.topics for p in topic.partitions)

    return Exchange(request, ListPartitionReassignmentsResponse, read)


def _replicas(brokers: Collection[int] | None) -> tuple[BrokerId, ...] | None:
    return None if brokers is None else tuple(BrokerId(broker_id) for broker_id in brokers)


def _by_topic(partitions: Iterable[Partition]) -> list[tuple[str, list[int]]]:
    groups = groupby(sorted(partitions), key=lambda partition: partition[0])
    return [(name, [index for _, index in group]) for name, group in groups]
