"""AlterPartitionReassignments (45), versions 0 to 1 (KIP-455; KIP-860: version 1 may keep the replication factor)."""

from collections.abc import Iterable, Sequence

from broker_runtime.apis.request.access import denied
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, ControllerContext
from broker_runtime.controller.capacity import Capacity, check_records
from broker_runtime.controller.partitions.reassignments import reassign
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps, counted, drain, each, flattened
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import AlterPartitionReassignmentsRequest, ReassignableTopic
from broker_runtime.wire.versions import ALTER_PARTITION_REASSIGNMENTS


async def handle(request: AlterPartitionReassignmentsRequest, call: Call, context: ControllerContext) -> Fields:
    answer: dict[str, object] = {"allow_replication_factor_change": _factor_may_change(request, call), "responses": ()}
    access = call.access
    if access is not None and not access.cluster():
        error = denied(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        refused = await call.completion.slices.finish(refused_topics(request.topics, error))
        return answer | {"error_code": error.code, "error_message": error.message, "responses": refused}
    try:
        responses = await context.controller.submit(lambda image: _reassign_all(request, call, image))
    except KafkaError as error:
        return answer | {"error_code": error.code, "error_message": error.message}
    return answer | {"error_code": ErrorCode.NONE, "error_message": None, "responses": responses}


def refused_topics(topics: Iterable[ReassignableTopic], error: KafkaError) -> Steps[list[Fields]]:
    """Return an answer with this error for each partition of each topic."""
    found: list[Fields] = []
    for topic in topics:
        partitions = yield from each(topic.partitions, lambda asked: _answer(asked.partition_index, error))
        found.append({"name": topic.name, "partitions": partitions})
        yield
    return found


def _factor_may_change(request: AlterPartitionReassignmentsRequest, call: Call) -> bool:
    return call.version < 1 or request.allow_replication_factor_change


def _reassign_all(
    request: AlterPartitionReassignmentsRequest, call: Call, image: MetadataImage
) -> Steps[tuple[Sequence[MetadataRecord], Sequence[Fields]]]:
    named = yield from flattened(
        ((topic.name, one.partition_index) for one in topic.partitions) for topic in request.topics
    )
    counts = yield from counted(named)
    keep = not _factor_may_change(request, call)
    records: list[MetadataRecord] = []
    capacity = Capacity(image)
    responses: list[Fields] = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            answer = _answer(asked.partition_index, None)
            try:
                if counts[topic.name, asked.partition_index] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "The partition is in the request more than once.")
                moved = reassign(topic.name, asked.partition_index, asked.replicas, image, keep_factor=keep)
                check_records(len(records) + len(moved))
                records += yield from capacity.take(moved)
            except KafkaError as error:
                answer = _answer(asked.partition_index, error)
            partitions.append(answer)
            yield
        yield
        responses.append({"name": topic.name, "partitions": partitions})
    yield from drain(counts)
    return records, responses


def _answer(index: int, error: KafkaError | None) -> Fields:
    return {
        "partition_index": index,
        "error_code": ErrorCode.NONE if error is None else error.code,
        "error_message": None if error is None else error.message,
    }


API = ApiSpec(
    key=ALTER_PARTITION_REASSIGNMENTS,
    name="AlterPartitionReassignments",
    versions=(0, 1),
    handle=handle,
)
