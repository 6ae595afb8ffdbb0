"""ElectLeaders (43), versions 0 to 2 (KIP-183, KIP-460: unclean elections from version 1)."""

from collections.abc import Sequence

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, ControllerContext
from broker_runtime.controller.elections import ElectionType, elect
from broker_runtime.errors import ErrorCode, KafkaError, detached
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import Record
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import ElectLeadersRequest
from broker_runtime.wire.versions import ELECT_LEADERS


async def handle(request: ElectLeadersRequest, call: Call, context: ControllerContext) -> Fields:
    try:
        kind = _kind(request.election_type if call.version >= 1 else ElectionType.PREFERRED)
        results = await context.controller.submit(lambda image: _elect_all(request, kind, image))
    except KafkaError as error:
        return _refused(request, error)
    return {"error_code": ErrorCode.NONE, "replica_election_results": results}


def _kind(asked: int) -> ElectionType:
    try:
        return ElectionType(asked)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Value {asked} must be one of [0 (preferred), 1 (unclean)]"
        ) from None


_Results = Sequence[tuple[str, Sequence[tuple[int, KafkaError | None]]]]


def _elect_all(
    request: ElectLeadersRequest, kind: ElectionType, image: MetadataImage
) -> tuple[Sequence[Record], Sequence[Fields]]:
    """Who asks for all partitions hears of those that had something to elect."""
    everything = request.topic_partitions is None
    elected: dict[tuple[str, int], Record | KafkaError] = {}
    results = []
    for name, indexes in _asked(request, image):
        told: list[tuple[int, KafkaError | None]] = []
        for index in indexes:
            # A partition that is named twice is elected once, and each mention is answered.
            if (name, index) not in elected:
                elected[name, index] = _elect(name, index, kind, image)
            outcome = elected[name, index]
            error = outcome if isinstance(outcome, KafkaError) else None
            if not everything or error is None or error.code != ErrorCode.ELECTION_NOT_NEEDED:
                told.append((index, error))
        results.append((name, told))
    return [record for record in elected.values() if not isinstance(record, KafkaError)], _answer(results)


def _asked(request: ElectLeadersRequest, image: MetadataImage) -> list[tuple[str, Sequence[int]]]:
    if request.topic_partitions is None:
        return [(topic.name, list(topic.partitions)) for topic in image.topics.values()]
    return [(each.topic, each.partitions) for each in request.topic_partitions]


def _elect(name: str, index: int, kind: ElectionType, image: MetadataImage) -> Record | KafkaError:
    topic = image.topics.get(name)
    if topic is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    try:
        return elect(topic, index, kind, image)
    except KafkaError as refusal:
        return detached(refusal)


def _refused(request: ElectLeadersRequest, error: KafkaError) -> Fields:
    """Version 0 has no error of the whole request: each partition has it."""
    results = [(each.topic, [(index, error) for index in each.partitions]) for each in request.topic_partitions or ()]
    return {"error_code": error.code, "replica_election_results": _answer(results)}


def _answer(results: _Results) -> Sequence[Fields]:
    return [
        {
            "topic": name,
            "partition_result": [
                {
                    "partition_id": index,
                    "error_code": ErrorCode.NONE if error is None else error.code,
                    "error_message": None if error is None else error.message,
                }
                for index, error in partitions
            ],
        }
        for name, partitions in results
    ]


API = ApiSpec(key=ELECT_LEADERS, name="ElectLeaders", versions=(0, 2), handle=handle)
