"""WriteTxnMarkers (27) as values: its markers, and the results of its partitions. Pure (KIP-98, KIP-1228)."""

from collections.abc import Iterable, Mapping, Sequence

from broker_runtime.errors import ErrorCode
from broker_runtime.slicing.steps import Steps, pages
from broker_runtime.transactions.seam import TopicPartition
from broker_runtime.wire.messages import Entity, Fields
from kafka_bytes.control import Marker

_OF_A_STEP = 32
VERSION = 2
"""The version of WriteTxnMarkers that brokers send: it has the transaction version of each marker."""
PartitionsOfMarker = tuple[Marker, Sequence[TopicPartition]]
"""A marker, and the partitions that get it."""
ResultsOfMarker = Mapping[TopicPartition, int]
"""The error codes of a marker's partitions."""


def by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the numbers of the partitions by topic."""
    found: dict[str, list[int]] = {}
    for topic, index in places:
        found.setdefault(topic, []).append(index)
    return found


def request_of(markers: Sequence[PartitionsOfMarker]) -> Steps[Fields]:
    """Return the content of a request with these markers."""
    content: list[Fields] = []
    for marker, places in markers:
        topics = [{"name": name, "partition_indexes": indexes} for name, indexes in by_topic(places).items()]
        content.append(
            {
                "producer_id": marker.producer_id,
                "producer_epoch": marker.producer_epoch,
                "transaction_result": marker.is_commit,
                "topics": topics,
                "coordinator_epoch": marker.coordinator_epoch,
                "transaction_version": marker.transaction_version,
            }
        )
        yield
    return {"markers": content}


def markers_in(request: Entity, version: int) -> Steps[list[PartitionsOfMarker]]:
    """Return the markers of a request, each partition of a marker once. Version 1 has no transaction versions."""
    found: list[PartitionsOfMarker] = []
    for each in request.markers:
        places: dict[TopicPartition, None] = {}
        for topic in each.topics:
            for some in pages(topic.partition_indexes, _OF_A_STEP):
                places.update(dict.fromkeys((topic.name, index) for index in some))
                yield
            yield
        transaction_version = each.transaction_version if version >= VERSION else 0
        marker = Marker(
            each.producer_id, each.producer_epoch, each.transaction_result, each.coordinator_epoch, transaction_version
        )
        found.append((marker, tuple(places)))
        yield
    return found


def answer_of(markers: Sequence[PartitionsOfMarker], results: Sequence[ResultsOfMarker]) -> Steps[Fields]:
    """Return the answer to a request: one result for each of its markers, in their order."""
    content: list[Fields] = []
    for (marker, places), codes in zip(markers, results, strict=True):
        by_name: dict[str, list[Fields]] = {}
        for some in pages(places, _OF_A_STEP):
            for place in some:
                by_name.setdefault(place[0], []).append({"partition_index": place[1], "error_code": codes[place]})
            yield
        topics: list[Fields] = []
        for name, partitions in by_name.items():
            topics.append({"name": name, "partitions": partitions})
            if len(topics) % _OF_A_STEP == 0:
                yield
        content.append({"producer_id": marker.producer_id, "topics": topics})
        yield
    return {"markers": content}


def results_in(answer: Entity, markers: Sequence[PartitionsOfMarker]) -> Steps[list[ResultsOfMarker]]:
    """Return the results of an answer, for each marker of the request. Their producers are distinct.

    A partition that the answer does not have gets UNKNOWN_SERVER_ERROR.
    """
    by_producer: dict[int, dict[TopicPartition, int]] = {}
    for each in answer.markers:
        codes = by_producer.setdefault(each.producer_id, {})
        for topic in each.topics:
            codes.update(((topic.name, part.partition_index), int(part.error_code)) for part in topic.partitions)
            yield
    found: list[ResultsOfMarker] = []
    for marker, places in markers:
        codes = by_producer.get(marker.producer_id, {})
        found.append({place: codes.get(place, ErrorCode.UNKNOWN_SERVER_ERROR) for place in places})
        yield
    return found
