"""CreateTopics (19), versions 2 to 7 (KIP-464: defaults, KIP-525: configurations in the answer, KIP-516: topic ids)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, ControllerContext
from broker_runtime.controller.capacity import Capacity, check_partitions, check_records
from broker_runtime.controller.configs import check_count
from broker_runtime.controller.topics import (
    CreatedTopic,
    NewTopic,
    TakenNames,
    TopicDefaults,
    create_topic,
    partitions_asked_for,
)
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.describe_configs import describe_topic
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.security.acls.model import AclOperation
from broker_runtime.slicing.steps import Steps, chosen, counted, each, gathered
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import CreatableTopic, CreateTopicsRequest
from broker_runtime.wire.versions import CREATE_TOPICS

if TYPE_CHECKING:
    from broker_runtime.apis.request.charged_call import ChargedCall

_DENIED = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
_STRICT_SINCE = 6
"""First version whose answer can have THROTTLING_QUOTA_EXCEEDED (KIP-599)."""

ConfigsGiven = tuple[tuple[str, str], ...]
"""The configuration that a request contains for one topic."""


async def handle(request: CreateTopicsRequest, call: Call, context: ControllerContext) -> Fields | Steps[Fields]:
    charge = context.charge(call, strict=call.version >= _STRICT_SINCE)
    try:
        topics = await context.controller.submit(lambda image: _create_all(request, call, image, context, charge))
    except KafkaError as error:
        return _refused_all(request, error)
    finally:
        if charge is not None:
            charge.throttle()
    return {"topics": topics}


def _refused_all(request: CreateTopicsRequest, error: KafkaError) -> Steps[Fields]:
    # As in Kafka, a topic that is named several times gets as many results.
    return {"topics": (yield from each(request.topics, lambda topic: _refused(topic.name, error)))}


def _create_all(
    request: CreateTopicsRequest,
    call: Call,
    image: MetadataImage,
    context: ControllerContext,
    charge: "ChargedCall | None",
) -> Steps[tuple[Sequence[MetadataRecord], Sequence[Fields]]]:
    settings, access = context.settings, call.access
    defaults = TopicDefaults(settings.config.num_partitions, settings.config.default_replication_factor)
    counts = yield from counted(topic.name for topic in request.topics)
    twice = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    named_twice = yield from chosen(counts, lambda name: counts[name] > 1)
    answers = yield from each(named_twice, lambda name: _refused(name, twice))
    wanted = yield from chosen(request.topics, lambda topic: counts[topic.name] == 1)
    if access is not None and not access.cluster(hides=True):
        refused = yield from chosen(wanted, lambda topic: not access.topic(topic.name))
        answers += yield from each(refused, lambda topic: _refused(topic.name, _DENIED))
        names = yield from gathered(topic.name for topic in refused)
        wanted = yield from chosen(wanted, lambda topic: topic.name not in names)
    check_partitions(sum((yield from each(wanted, lambda topic: _partitions_of(topic, defaults)))))
    records: list[MetadataRecord] = []
    taken, capacity = TakenNames(image), Capacity(image)
    describe = _Descriptions(image, context)
    for asked in wanted:
        try:
            new, created = yield from create_topic((yield from _wanted(asked)), image, defaults, uuid4, taken)
            if charge is not None:
                charge.record(created.partitions)
            records += yield from capacity.take(new)
        except KafkaError as error:
            answers.append(_refused(asked.name, error))
        else:
            taken.add(asked.name)
            may_describe = access is None or access.topic(asked.name, AclOperation.DESCRIBE_CONFIGS, hides=True)
            answers.append(
                _created(asked.name, created, describe(created.configs))
                if may_describe
                else _created_only(asked.name, created)
            )
        yield
    check_records(len(records))
    return ((), answers) if request.validate_only else (records, answers)


def _partitions_of(topic: CreatableTopic, defaults: TopicDefaults) -> int:
    return max(0, partitions_asked_for(topic.num_partitions, len(topic.assignments), defaults))


def _wanted(topic: CreatableTopic) -> Steps[NewTopic]:
    """Return the topic that the request asks for. Raises KafkaError."""
    check_count(len(topic.configs))
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        (yield from each(topic.assignments, lambda assigned: (assigned.partition_index, assigned.broker_ids))),
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


def _created_only(name: str, created: CreatedTopic) -> Fields:
    """Return the result of a topic whose configuration the client may not describe."""
    return {
        "name": name,
        "topic_id": created.id,
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "topic_config_error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": [],
    }


class _Descriptions:
    """Described configurations of the topics of one request.

    They are cached, because most are equal, and describing one takes as long as creating a topic.
    """

    def __init__(self, image: MetadataImage, context: ControllerContext) -> None:
        self._image, self._context = image, context
        self._known: dict[ConfigsGiven, Sequence[Fields]] = {}

    def __call__(self, configs: Mapping[str, str]) -> Sequence[Fields]:
        given = tuple(configs.items())
        if given not in self._known:
            self._known[given] = [
                {
                    "name": entry.name,
                    "value": entry.value,
                    "read_only": entry.read_only,
                    "config_source": entry.source,
                    "is_sensitive": entry.key.sensitive,
                }
                for entry in describe_topic(configs, self._image, self._context.settings)
            ]
        return self._known[given]


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
