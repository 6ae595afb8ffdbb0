"""CreateTopics (19), versions 2 to 7 (KIP-464 defaults, KIP-525 configurations in the answer, KIP-516 topic ids)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from uuid import uuid4

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, ControllerContext
from broker_runtime.controller.capacity import Capacity, check_partitions, check_records
from broker_runtime.controller.topics import (
    CreatedTopic,
    NewTopic,
    TopicDefaults,
    collision_key,
    create_topic,
    partitions_asked_for,
)
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.describe_configs import describe_topic
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import Record
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import CreatableTopic, CreateTopicsRequest
from broker_runtime.wire.versions import CREATE_TOPICS

ConfigsGiven = tuple[tuple[str, str], ...]
"""The configuration that one topic of a request asks for."""


async def handle(request: CreateTopicsRequest, call: Call, context: ControllerContext) -> Fields:
    try:
        topics = await context.controller.submit(lambda image: _create_all(request, image, context))
    except KafkaError as error:
        topics = [_refused(topic.name, error) for topic in request.topics]
    return {"topics": topics}


def _create_all(
    request: CreateTopicsRequest, image: MetadataImage, context: ControllerContext
) -> tuple[Sequence[Record], Sequence[Fields]]:
    settings = context.settings
    defaults = TopicDefaults(settings.config.num_partitions, settings.config.default_replication_factor)
    counts = Counter(topic.name for topic in request.topics)
    records: list[Record] = []
    answers: list[Fields] = [
        _refused(name, KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        for name, count in counts.items()
        if count > 1
    ]
    taken: dict[str, str] = {}
    capacity = Capacity(image)
    described: dict[ConfigsGiven, Sequence[Fields]] = {}
    wanted = [_wanted(topic) for topic in request.topics if counts[topic.name] == 1]
    check_partitions(partitions_asked_for(topic, defaults) for topic in wanted)
    for topic in wanted:
        try:
            new, created = create_topic(topic, image, defaults, uuid4, taken)
            records += capacity.take(new)
        except KafkaError as error:
            answers.append(_refused(topic.name, error))
            continue
        taken[collision_key(topic.name)] = topic.name
        given = tuple(created.configs.items())
        if given not in described:
            # For each topic anew, this would be nearly all the work of a request for hundreds of them.
            described[given] = _described(created.configs, image, context)
        answers.append(_created(topic.name, created, described[given]))
    check_records(len(records))
    return ((), answers) if request.validate_only else (records, answers)


def _wanted(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [(assignment.partition_index, assignment.broker_ids) for assignment in topic.assignments],
        [(config.name, config.value) for config in topic.configs],
    )


def _created(name: str, created: CreatedTopic, configs: Sequence[Fields]) -> Fields:
    return {
        "name": name,
        "topic_id": created.id,
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "num_partitions": created.partitions,
        "replication_factor": created.replication_factor,
        "configs": configs,
    }


def _described(configs: Mapping[str, str], image: MetadataImage, context: ControllerContext) -> Sequence[Fields]:
    return [
        {
            "name": entry.name,
            "value": entry.value,
            "read_only": entry.read_only,
            "config_source": entry.source,
            "is_sensitive": entry.key.sensitive,
        }
        for entry in describe_topic(configs, image, context.settings)
    ]


def _refused(name: str, error: KafkaError) -> Fields:
    return {
        "name": name,
        "topic_id": None,
        "error_code": error.code,
        "error_message": error.message,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": [],
    }


API = ApiSpec(key=CREATE_TOPICS, name="CreateTopics", versions=(2, 7), handle=handle)
