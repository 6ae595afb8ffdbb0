"""ElectLeaders (43), versions 0 to 2 (KIP-183, KIP-460: unclean elections from version 1)."""

from collections.abc import Sequence
from typing import cast

from broker_runtime.apis.request.access import denied
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, ControllerContext
from broker_runtime.controller.partitions.elections import ElectionType, elect
from broker_runtime.errors import ErrorCode, KafkaError, detached, quoted
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps, chosen, drain, each, let_go
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import ElectLeadersRequest
from broker_runtime.wire.versions import ELECT_LEADERS


async def handle(request: ElectLeadersRequest, call: Call, context: ControllerContext) -> Fields | Steps[Fields]:
    access = call.access
    if access is not None and not access.cluster():
        return refused_election(request, denied(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    try:
        kind = _kind(request.election_type if call.version >= 1 else ElectionType.PREFERRED)
        results = await context.controller.submit(lambda image: _elect_all(request, kind, image))
    except KafkaError as error:
        return refused_election(request, error)
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
) -> Steps[tuple[Sequence[MetadataRecord], Sequence[Fields]]]:
    """Elect leaders. A request for all partitions gets results only for those that needed an election."""
    everything = request.topic_partitions is None
    elected: dict[tuple[str, int], MetadataRecord | KafkaError] = {}
    results = []
    for name, indexes in (yield from _asked(request, image)):
        told: list[tuple[int, KafkaError | None]] = []
        for index in indexes:
            # A partition that is named twice is elected once and gets two results.
            if (name, index) not in elected:
                elected[name, index] = _elect(name, index, kind, image)
            outcome = elected[name, index]
            error = outcome if isinstance(outcome, KafkaError) else None
            if not everything or error is None or error.code != ErrorCode.ELECTION_NOT_NEEDED:
                told.append((index, error))
            yield
        yield
        results.append((name, told))
    records = yield from chosen(elected.values(), lambda record: not isinstance(record, KafkaError))
    answers = yield from _answer(results)
    for _, told in results:
        yield from let_go(told)
        yield
    yield from drain(elected)
    return cast("list[MetadataRecord]", records), answers


def _asked(request: ElectLeadersRequest, image: MetadataImage) -> Steps[Sequence[tuple[str, Sequence[int]]]]:
    if request.topic_partitions is None:
        return (yield from each(image.topics.values(), lambda topic: (topic.name, list(topic.partitions))))
    return (yield from each(request.topic_partitions, lambda asked: (asked.topic, asked.partitions)))


def _elect(name: str, index: int, kind: ElectionType, image: MetadataImage) -> MetadataRecord | KafkaError:
    topic = image.topics.get(name)
    if topic is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {quoted(name)}")
    try:
        return elect(topic, index, kind, image)
    except KafkaError as refusal:
        return detached(refusal)


def refused_election(request: ElectLeadersRequest, error: KafkaError) -> Steps[Fields]:
    """Return the answer with an error.

    Each partition has it too, because version 0 has no error of the whole request.
    """
    results: list[tuple[str, list[tuple[int, KafkaError | None]]]] = []
    for asked in request.topic_partitions or ():
        told: list[tuple[int, KafkaError | None]] = []
        told += yield from each(asked.partitions, lambda index: (index, error))
        results.append((asked.topic, told))
        yield
    answers = yield from _answer(results)
    for _, told in results:
        yield from let_go(told)
        yield
    return {"error_code": error.code, "replica_election_results": answers}


def _answer(results: _Results) -> Steps[Sequence[Fields]]:
    answers = []
    for name, partitions in results:
        answers.append({"topic": name, "partition_result": (yield from each(partitions, _outcome))})
        yield
    return answers


def _outcome(elected: tuple[int, KafkaError | None]) -> Fields:
    index, error = elected
    return {
        "partition_id": index,
        "error_code": ErrorCode.NONE if error is None else error.code,
        "error_message": None if error is None else error.message,
    }


API = ApiSpec(key=ELECT_LEADERS, name="ElectLeaders", versions=(0, 2), handle=handle)
