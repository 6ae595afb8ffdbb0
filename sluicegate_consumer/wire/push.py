"""The frames of the push protocol for a consumer, as defined in docs/reference/push-protocol.md. Pure.

`kafka_bytes.push` has the layouts. Reading raises ProtocolError; writing raises ValueError if a text or a list is too
long.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from kafka_bytes.errors import FormatError
from kafka_bytes.own_keys import PING, START_FETCHER, STOP_FETCHER
from kafka_bytes.push import layouts, messages
from kafka_bytes.push.layouts import Layout
from kafka_bytes.push.messages import Broker, ClusterMetadataResponse
from kafka_bytes.push.messages import PingRequest as Ping
from kafka_bytes.push.messages import StopFetcherRequest as StopFetcher
from kafka_bytes.push.partition_text import NO_LEADER, partition_text, read_partition
from sluicegate_consumer.errors import ProtocolError
from sluicegate_consumer.wire.fields import INT16, Cursor

M = TypeVar("M")
_DIGITS_MAX = 10
_CALLS: Mapping[int, Layout[Any]] = {
    PING: layouts.PING_REQUEST,
    STOP_FETCHER: layouts.STOP_FETCHER_REQUEST,
    START_FETCHER: layouts.START_FETCHER_REQUEST,
}


class PartitionOffset(NamedTuple):
    """An offset of one partition in the push protocol.

    `offset` is that of the next record to read; below 0 if none was read. `leader` is NO_LEADER if it is unknown.
    """

    topic: str
    partition: int
    offset: int
    leader: int = NO_LEADER


class StartFetcher(NamedTuple):
    """The coordinator's call that assigns exactly these partitions to the streams, by the number of the stream."""

    consumer_id: str
    streams: tuple[tuple[int, tuple[PartitionOffset, ...]], ...]
    brokers: tuple[Broker, ...]


Call = Ping | StopFetcher | StartFetcher


def cluster_metadata_request(group_id: str) -> bytes:
    return layouts.CLUSTER_METADATA_REQUEST.write(messages.ClusterMetadataRequest(group_id))


def read_cluster_metadata(raw: memoryview) -> ClusterMetadataResponse:
    return _read(layouts.CLUSTER_METADATA_RESPONSE, raw)


class Registration(NamedTuple):
    """The registration of a consumer: the fields of RegisterConsumerRequest, in order."""

    group_id: str
    consumer_id: str
    topic_count: str
    auto_commit: bool
    auto_offset_reset: str
    session_timeout_ms: int

    def request(self) -> bytes:
        return layouts.REGISTER_CONSUMER_REQUEST.write(messages.RegisterConsumerRequest(*self))


def read_registered(raw: memoryview) -> int:
    """Return the error code of the response to a registration."""
    return _read(layouts.REGISTER_CONSUMER_RESPONSE, raw).error_code


def read_call(raw: memoryview) -> Call:
    """Parse the coordinator's call to a push consumer."""
    (kind,) = Cursor(raw).fixed(INT16)
    layout = _CALLS.get(kind)
    if layout is None:
        raise ProtocolError(f"the coordinator sent a call of the unknown type {kind}")
    call = _read(layout, raw)
    if isinstance(call, messages.StartFetcherRequest):
        streams = tuple([(_stream(each.consumer_thread_id), _parts(each)) for each in call.ownership_info])
        return StartFetcher(call.consumer_id, streams, call.brokers_info)
    known: Call = call
    return known


def ping_answer(consumer_id: str, offsets: Sequence[PartitionOffset] | None) -> bytes:
    return layouts.PING_RESPONSE.write(messages.PingResponse(0, consumer_id, _offsets(offsets)))


def stop_answer(consumer_id: str, offsets: Sequence[PartitionOffset] | None) -> bytes:
    return layouts.STOP_FETCHER_RESPONSE.write(messages.StopFetcherResponse(0, consumer_id, _offsets(offsets)))


def start_answer(consumer_id: str) -> bytes:
    return layouts.START_FETCHER_RESPONSE.write(messages.StartFetcherResponse(0, consumer_id))


def _read(layout: Layout[M], raw: memoryview) -> M:
    try:
        return layout.read(raw)
    except FormatError as error:
        raise ProtocolError(str(error)) from None


def _offsets(offsets: Sequence[PartitionOffset] | None) -> tuple[messages.PartitionOffset, ...] | None:
    """Return the positions for an answer, which names no leaders."""
    if offsets is None:
        return None
    return tuple(
        [
            messages.PartitionOffset(each.topic, partition_text(NO_LEADER, each.partition), each.offset)
            for each in offsets
        ]
    )


def _stream(thread_id: str) -> int:
    _, _, number = thread_id.rpartition("-")
    if not (number.isascii() and number.isdigit() and len(number) <= _DIGITS_MAX):
        raise ProtocolError(f"{thread_id[:100]!r} does not name a stream")
    return int(number)


def _parts(owned: messages.ThreadOwnership) -> tuple[PartitionOffset, ...]:
    try:
        found = [(each.topic, each.offset, *read_partition(each.partition)) for each in owned.assigned_parts]
    except FormatError as error:
        raise ProtocolError(str(error)) from None
    return tuple([PartitionOffset(topic, number, offset, leader) for topic, offset, leader, number in found])
