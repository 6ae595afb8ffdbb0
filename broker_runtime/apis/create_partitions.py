"""CreatePartitions (37), versions 0 to 3 (KIP-195)."""

from collections import Counter
from collections.abc import Sequence

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, ControllerContext
from broker_runtime.controller.capacity import Capacity, check_records
from broker_runtime.controller.topics import grow_topic
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import Record
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import CreatePartitionsRequest
from broker_runtime.wire.versions import CREATE_PARTITIONS


async def handle(request: CreatePartitionsRequest, call: Call, context: ControllerContext) -> Fields:
    try:
        results = await context.controller.submit(lambda image: _grow_all(request, image))
    except KafkaError as error:
        results = [_result(name, error) for name in dict.fromkeys(topic.name for topic in request.topics)]
    return {"results": results}


def _grow_all(request: CreatePartitionsRequest, image: MetadataImage) -> tuple[Sequence[Record], Sequence[Fields]]:
    counts = Counter(topic.name for topic in request.topics)
    records: list[Record] = []
    capacity = Capacity(image)
    results = [
        _result(name, KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        for name, count in counts.items()
        if count > 1
    ]
    for topic in request.topics:
        if counts[topic.name] > 1:
            continue
        assignments = None if topic.assignments is None else [each.broker_ids for each in topic.assignments]
        try:
            new = grow_topic(topic.name, topic.count, assignments, image)
            check_records(len(records) + len(new))
            records += capacity.take(new)
        except KafkaError as error:
            results.append(_result(topic.name, error))
        else:
            results.append(_result(topic.name, None))
    return ((), results) if request.validate_only else (records, results)


def _result(name: str, error: KafkaError | None) -> Fields:
    return {
        "name": name,
        "error_code": ErrorCode.NONE if error is None else error.code,
        "error_message": None if error is None else error.message,
    }


API = ApiSpec(key=CREATE_PARTITIONS, name="CreatePartitions", versions=(0, 3), handle=handle)
