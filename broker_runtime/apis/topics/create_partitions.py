"""CreatePartitions (37), versions 0 to 3 (KIP-195)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker_runtime.apis.request.access import Access
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, ControllerContext
from broker_runtime.controller.capacity import Capacity, check_records
from broker_runtime.controller.topics import grow_topic
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps, chosen, counted, distinct, each
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import CreatePartitionsRequest
from broker_runtime.wire.versions import CREATE_PARTITIONS

if TYPE_CHECKING:
    from broker_runtime.apis.request.charged_call import ChargedCall

_STRICT_SINCE = 3
"""First version whose answer can have THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


async def handle(request: CreatePartitionsRequest, call: Call, context: ControllerContext) -> Fields | Steps[Fields]:
    charge = context.charge(call, strict=call.version >= _STRICT_SINCE)
    try:
        access = call.access
        results = await context.controller.submit(lambda image: _grow_all(request, image, access, charge))
    except KafkaError as error:
        return _refused(request, error)
    finally:
        if charge is not None:
            charge.throttle()
    return {"results": results}


def _refused(request: CreatePartitionsRequest, error: KafkaError) -> Steps[Fields]:
    names = yield from distinct(topic.name for topic in request.topics)
    return {"results": (yield from each(names, lambda name: _result(name, error)))}


def _grow_all(
    request: CreatePartitionsRequest, image: MetadataImage, access: Access | None, charge: "ChargedCall | None"
) -> Steps[tuple[Sequence[MetadataRecord], Sequence[Fields]]]:
    counts = yield from counted(topic.name for topic in request.topics)
    records: list[MetadataRecord] = []
    capacity = Capacity(image)
    twice = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    named_twice = yield from chosen(counts, lambda name: counts[name] > 1)
    results = yield from each(named_twice, lambda name: _result(name, twice))
    for topic in (yield from chosen(request.topics, lambda topic: counts[topic.name] == 1)):
        assignments = topic.assignments
        given = None if assignments is None else (yield from each(assignments, lambda assigned: assigned.broker_ids))
        try:
            if access is not None and not access.topic(topic.name):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            new = yield from grow_topic(topic.name, topic.count, given, image)
            check_records(len(records) + len(new))
            if charge is not None:
                charge.record(len(new))
            records += yield from capacity.take(new)
        except KafkaError as error:
            results.append(_result(topic.name, error))
        else:
            results.append(_result(topic.name, None))
        yield
    return ((), results) if request.validate_only else (records, results)


def _result(name: str, error: KafkaError | None) -> Fields:
    return {
        "name": name,
        "error_code": ErrorCode.NONE if error is None else error.code,
        "error_message": None if error is None else error.message,
    }


API = ApiSpec(key=CREATE_PARTITIONS, name="CreatePartitions", versions=(0, 3), handle=handle)
