"""DeleteTopics (20), versions 1 to 6 (KIP-516: from version 6 by name or id)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast
from uuid import UUID

from broker_runtime.apis.request.access import denied
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ZERO_UUID, ApiSpec, ControllerContext
from broker_runtime.controller.topics import delete_topic
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.security.acls.model import AclOperation
from broker_runtime.slicing.steps import Steps, counted, distinct, each
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import DeleteTopicsRequest, DeleteTopicsRequestV5
from broker_runtime.wire.versions import DELETE_TOPICS

if TYPE_CHECKING:
    from broker_runtime.apis.request.charged_call import ChargedCall

_STRICT_SINCE = 5
"""First version whose answer can have THROTTLING_QUOTA_EXCEEDED (KIP-599)."""

_Wanted = tuple[str | None, UUID | None]


async def handle(request: DeleteTopicsRequest, call: Call, context: ControllerContext) -> Fields | Steps[Fields]:
    if not context.settings.config.delete_topic_enable:
        code = ErrorCode.TOPIC_DELETION_DISABLED if call.version >= 3 else ErrorCode.INVALID_REQUEST
        return _refused(request, call.version, KafkaError(code, "Topic deletion is disabled."))
    charge = context.charge(call, strict=call.version >= _STRICT_SINCE)
    try:
        responses = await context.controller.submit(lambda image: _delete_all(request, call, image, charge))
    except KafkaError as error:
        return _refused(request, call.version, error)
    finally:
        if charge is not None:
            charge.throttle()
    return {"responses": responses}


def _refused(request: DeleteTopicsRequest, version: int, error: KafkaError) -> Steps[Fields]:
    wanted = yield from _wanted(request, version)
    return {"responses": (yield from each(wanted, lambda item: _answer(item, error)))}


def _wanted(request: DeleteTopicsRequest, version: int) -> Steps[Sequence[_Wanted]]:
    if version < 6:
        return (yield from each(cast("DeleteTopicsRequestV5", request).topic_names, lambda name: (name, None)))
    return (
        yield from each(
            request.topics, lambda topic: (topic.name, None if topic.topic_id == ZERO_UUID else topic.topic_id)
        )
    )


def _delete_all(
    request: DeleteTopicsRequest, call: Call, image: MetadataImage, charge: "ChargedCall | None"
) -> Steps[tuple[Sequence[MetadataRecord], Sequence[Fields]]]:
    records: list[MetadataRecord] = []
    answers: list[Fields] = []
    access = call.access
    if access is not None and access.cluster(hides=True):
        access = None
    wanted = yield from _wanted(request, call.version)
    counts = yield from counted(_topic_name(item, image) or item for item in wanted)
    for item in (yield from distinct(wanted)):
        try:
            if counts[_topic_name(item, image) or item] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            name = _topic_name(item, image)
            if access is not None and name is not None and not access.topic(name):
                may_describe = access.topic(name, AclOperation.DESCRIBE, hides=True)
                if name in image.topics or not may_describe:
                    shown = name if item[0] is not None or may_describe else None
                    answers.append(_answer((shown, item[1]), denied(ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
                    yield
                    continue
            removal, topic = delete_topic(*item, image)
            if charge is not None:
                charge.record(len(topic.partitions))
        except KafkaError as error:
            answers.append(_answer(item, error))
        else:
            records += removal
            answers.append(_answer((topic.name, topic.id), None))
        yield
    return records, answers


def _topic_name(item: _Wanted, image: MetadataImage) -> str | None:
    """Return the topic's name if known, so that a topic given by its name and by its id counts as a duplicate."""
    name, topic_id = item
    if name is not None or topic_id is None:
        return name
    topic = image.topics.by_id(topic_id)
    return None if topic is None else topic.name


def _answer(item: _Wanted, error: KafkaError | None) -> Fields:
    name, topic_id = item
    return {
        "name": name,
        "topic_id": topic_id,
        "error_code": ErrorCode.NONE if error is None else error.code,
        "error_message": None if error is None else error.message,
    }


API = ApiSpec(key=DELETE_TOPICS, name="DeleteTopics", versions=(1, 6), handle=handle)
