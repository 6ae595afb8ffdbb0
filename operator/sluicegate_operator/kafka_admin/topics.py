"""Metadata, CreateTopics, CreatePartitions, DeleteTopics for one topic at a time."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from uuid import UUID

from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_partitions.v3.response import CreatePartitionsResponse
from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreateTopicsResponse
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.delete_topics.v6.response import DeleteTopicsResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v11.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v11.response import MetadataResponse, MetadataResponseTopic
from kio.schema.types import TopicName
from kio.static.primitive import i16, i32, i32Timedelta

from sluicegate_operator.kafka_admin.connecting.exchange import Exchange
from sluicegate_operator.kafka_admin.errors import check, error_name, only
from sluicegate_operator.kafka_admin.views import NewTopic, PartitionView, TopicView, node_or_none

CONTROLLER_TIMEOUT = i32Timedelta.parse(timedelta(seconds=4))
"""Time limit of the controller for a request.

It is below the client's request timeout, so that the controller's own answer arrives first.
"""


def describe(names: Collection[str] | None) -> Exchange[MetadataResponse, dict[str, TopicView]]:
    wanted = None
    if names is not None:
        wanted = tuple(MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in names)
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False, include_topic_authorized_operations=False)
    return Exchange(request, MetadataResponse, _read_topics)


def _read_topics(reply: MetadataResponse) -> dict[str, TopicView]:
    views = (_view(topic) for topic in reply.topics)
    return {view.name: view for view in views}


def _view(topic: MetadataResponseTopic) -> TopicView:
    partitions = (
        PartitionView(p.partition_index, node_or_none(p.leader_id), tuple(p.replica_nodes), tuple(p.isr_nodes))
        for p in topic.partitions
    )
    error = None if topic.error_code is ErrorCode.none else error_name(topic.error_code)
    in_order = tuple(sorted(partitions, key=lambda partition: partition.index))
    return TopicView(topic.name or "", topic.topic_id, in_order, error)


def create(topic: NewTopic) -> Exchange[CreateTopicsResponse, UUID | None]:
    configs = tuple(CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items())
    creatable = CreatableTopic(
        name=TopicName(topic.name),
        num_partitions=i32(topic.partitions),
        replication_factor=i16(topic.replicas),
        assignments=(),
        configs=configs,
    )
    request = CreateTopicsRequest(topics=(creatable,), timeout=CONTROLLER_TIMEOUT, validate_only=False)

    def read(reply: CreateTopicsResponse) -> UUID | None:
        _check_only([(t.error_code, t.error_message) for t in reply.topics], f"creating topic {topic.name}")
        return reply.topics[0].topic_id

    return Exchange(request, CreateTopicsResponse, read, repeatable=False)


def grow(name: str, total: int) -> Exchange[CreatePartitionsResponse, None]:
    growth = CreatePartitionsTopic(name=TopicName(name), count=i32(total), assignments=None)
    request = CreatePartitionsRequest(topics=(growth,), timeout=CONTROLLER_TIMEOUT, validate_only=False)

    def read(reply: CreatePartitionsResponse) -> None:
        _check_only([(r.error_code, r.error_message) for r in reply.results], f"growing topic {name} to {total}")

    return Exchange(request, CreatePartitionsResponse, read, repeatable=False)


def delete(name: str, topic_id: UUID | None) -> Exchange[DeleteTopicsResponse, None]:
    # A request with both is invalid. The name then only describes the topic in errors.
    state = DeleteTopicState(name=TopicName(name) if topic_id is None else None, topic_id=topic_id)
    request = DeleteTopicsRequest(topics=(state,), timeout=CONTROLLER_TIMEOUT)

    def read(reply: DeleteTopicsResponse) -> None:
        _check_only([(r.error_code, r.error_message) for r in reply.responses], f"deleting topic {name}")

    return Exchange(request, DeleteTopicsResponse, read, repeatable=False)


def _check_only(outcomes: Sequence[tuple[ErrorCode, str | None]], subject: str) -> None:
    check(*only(outcomes, subject), subject)
