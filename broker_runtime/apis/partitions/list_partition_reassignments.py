"""ListPartitionReassignments (46), version 0 (KIP-455), answered by the active controller with its latest state."""

from collections.abc import Sequence
from typing import Any

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, ControllerContext
from broker_runtime.controller.partitions.elections import partitions
from broker_runtime.controller.partitions.reassignments import is_under_way
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps, drain, flattened, gathered
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import ListPartitionReassignmentsRequest
from broker_runtime.wire.versions import LIST_PARTITION_REASSIGNMENTS

_PARTITIONS_OF_A_STEP = 64


async def handle(request: ListPartitionReassignmentsRequest, call: Call, context: ControllerContext) -> Fields:
    try:
        topics = await context.controller.submit(lambda image: _list(request, image))
    except KafkaError as error:
        return {"error_code": error.code, "error_message": error.message, "topics": ()}
    return {"error_code": ErrorCode.NONE, "error_message": None, "topics": topics}


def _named(topics: Sequence[Any]) -> Steps[set[tuple[str, int]]]:
    """Return the partitions that a request names."""
    named = yield from flattened(((topic.name, index) for index in topic.partition_indexes) for topic in topics)
    return (yield from gathered(named))


def _list(
    request: ListPartitionReassignmentsRequest, image: MetadataImage
) -> Steps[tuple[Sequence[MetadataRecord], Sequence[Fields]]]:
    wanted = None if request.topics is None else (yield from _named(request.topics))
    found: dict[str, list[Fields]] = {}
    for number, (topic, index, part) in enumerate(partitions(image)):
        if number % _PARTITIONS_OF_A_STEP == 0:
            yield
        if not is_under_way(part):
            continue
        if wanted is None or (topic.name, index) in wanted:
            found.setdefault(topic.name, []).append(
                {
                    "partition_index": index,
                    "replicas": part.replicas,
                    "adding_replicas": part.adding,
                    "removing_replicas": part.removing,
                }
            )
    if wanted is not None:
        yield from drain(wanted)
    return (), [{"name": name, "partitions": partitions} for name, partitions in found.items()]


API = ApiSpec(
    key=LIST_PARTITION_REASSIGNMENTS,
    name="ListPartitionReassignments",
    versions=(0, 0),
    handle=handle,
)
