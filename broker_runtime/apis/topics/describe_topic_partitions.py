"""DescribeTopicPartitions (75), version 0 (KIP-966): topics in the order of their names, page by page with a cursor.

A request without topics asks for all topics. If it names topics, the cursor's topic must be one of them, as in Kafka.
Without an authorizer, the authorized operations are all operations.
"""

from broker_runtime.apis.request.authorization.authorized_operations import NOT_ASKED, ON_TOPIC
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.apis.topics.metadata import partition_fields
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.topics import Partition, Topic
from broker_runtime.metadata.topic_names import INTERNAL_TOPICS, check_topic_name
from broker_runtime.security.acls.model import AclResource
from broker_runtime.slicing.steps import Steps, chosen, distinct, each, in_order
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import DescribeTopicPartitionsRequest
from broker_runtime.wire.versions import DESCRIBE_TOPIC_PARTITIONS

_PARTITIONS_MAX = 2_000
"""Maximum number of partitions in one answer. Kafka's default of max.request.partition.size.limit."""


def handle(request: DescribeTopicPartitionsRequest, call: Call, context: BrokerContext) -> Steps[Fields]:
    start = ("", 0) if request.cursor is None else (request.cursor.topic_name, request.cursor.partition_index)
    unasked = {"topic_authorized_operations": NOT_ASKED}
    asked = yield from distinct(topic.name for topic in request.topics)
    from_here = yield from chosen(asked or list(context.image.topics), lambda name: name >= start[0])
    names = yield from in_order(from_here)
    if start[1] < 0 or (asked and request.cursor is not None and names[:1] != [start[0]]):
        refused = yield from each(
            request.topics, lambda topic: {**_absent(topic.name, ErrorCode.INVALID_REQUEST), **unasked}
        )
        return {"topics": refused, "next_cursor": None}
    left = max(1, min(request.response_partition_limit, _PARTITIONS_MAX))
    answers: list[Fields] = []
    access = call.access
    for name in names:
        yield
        if access is not None and not access.topic(name, hides=not asked):
            if asked:
                answers.append(_absent(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED) | unasked)
            continue
        if left == 0:
            return {"topics": answers, "next_cursor": {"topic_name": name, "partition_index": 0}}
        topic = context.image.topics.get(name)
        if topic is None:
            answers.append(_absent(name, _why_absent(name)) | _operations(name, call))
            continue
        first = start[1] if name == start[0] else 0
        indexes = [index for index in sorted(topic.partitions) if index >= first]
        answers.append((yield from _described(topic, indexes[:left], call, context)))
        if len(indexes) > left:
            return {"topics": answers, "next_cursor": {"topic_name": name, "partition_index": indexes[left]}}
        left -= len(indexes)
    return {"topics": answers, "next_cursor": None}


def _why_absent(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except KafkaError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _described(topic: Topic, indexes: list[int], call: Call, context: BrokerContext) -> Steps[Fields]:
    """Describe partitions of a topic. The steps may use `indexes`, because a topic never loses partitions."""
    partitions = yield from each(indexes, lambda index: _partition(index, topic.partitions[index], call, context))
    return _topic(topic.name, topic.id, ErrorCode.NONE) | {"partitions": partitions} | _operations(topic.name, call)


def _partition(index: int, part: Partition, call: Call, context: BrokerContext) -> Fields:
    return {
        **partition_fields(index, part, call.listener, context.image),
        "eligible_leader_replicas": part.elr,
        "last_known_elr": (),
    }


def _operations(name: str, call: Call) -> dict[str, object]:
    access = call.access
    operations = ON_TOPIC if access is None else access.operations(AclResource.TOPIC, name, ON_TOPIC)
    return {"topic_authorized_operations": operations}


def _absent(name: str, code: ErrorCode) -> dict[str, object]:
    return _topic(name, None, code)


def _topic(name: str, topic_id: object, code: ErrorCode) -> dict[str, object]:
    return {
        "error_code": code,
        "name": name,
        "topic_id": topic_id,
        "is_internal": name in INTERNAL_TOPICS,
        "partitions": [],
    }


API = ApiSpec(key=DESCRIBE_TOPIC_PARTITIONS, name="DescribeTopicPartitions", versions=(0, 0), handle=handle)
