"""The bytes of each message of the push protocol, big-endian, as one table. Pure.

A frame begins with its size (int32, itself not counted). Requests, and responses to the coordinator's calls, then have
the request type id (int16). The fields follow. There is no version, correlation id or client id: requests are answered
in their order. The type ids are beyond all API keys of Apache Kafka, so that one listener serves both protocols.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, Generic, TypeVar

from kafka_bytes.cursor import Cursor
from kafka_bytes.errors import FormatError
from kafka_bytes.frames import frame
from kafka_bytes.own_keys import CLUSTER_METADATA, PING, REGISTER_CONSUMER, START_FETCHER, STOP_FETCHER
from kafka_bytes.push import messages
from kafka_bytes.push.fields import (
    BOOLEAN,
    INT16,
    INT32,
    INT64,
    Field,
    Steps,
    UnfitError,
    array,
    at_once,
    last,
    struct,
    text,
)

M = TypeVar("M")

ID_BYTES_MAX = 1_024
"""Limit of the bytes of group and consumer ids.

Ids of clients of that time had some 80: host, time, a random number.
"""
_THREAD_SUFFIX_MAX = 6
"""Bytes that a thread's id adds to its consumer's: a hyphen and a number."""
_TOPIC_BYTES_MAX = 249
_HOST_BYTES_MAX = 255
_PARTITION_BYTES_MAX = 21
"""Two numbers of 32 bits, and the character between them."""
_RESET_BYTES_MAX = 16
_TYPE = Struct(">h")

_ID, _HOST = text(ID_BYTES_MAX), text(_HOST_BYTES_MAX)
_BROKERS = array(struct(messages.Broker, INT32, _HOST, INT32))
_OFFSETS = array(struct(messages.PartitionOffset, text(_TOPIC_BYTES_MAX), text(_PARTITION_BYTES_MAX), INT64))
_OWNERSHIP = array(struct(messages.ThreadOwnership, text(ID_BYTES_MAX + _THREAD_SUFFIX_MAX), _OFFSETS))


class Layout(Generic[M]):
    """The bytes of one kind of message, a NamedTuple: its type id, if a type id begins the bytes, and its fields."""

    def __init__(self, message: Callable[..., M], type_id: int | None, *fields: Field[Any]) -> None:
        self.message = message
        self.type_id = type_id
        self.fields = fields
        self.names: tuple[str, ...] = getattr(message, "_fields", ())

    def write(self, message: M) -> bytes:
        """Return the whole frame of a message. Raises ValueError if a value is beyond its limit."""
        parts: Any = message
        body = b"".join([field.write(part) for field, part in zip(self.fields, parts, strict=True)])
        if self.type_id is not None:
            body = _TYPE.pack(self.type_id) + body
        return frame(body)

    def read(self, frame: memoryview) -> M:
        """Read a message from a frame without its size.

        Raises FormatError for a frame that is another message or has bytes after it, and UnfitError for a message with
        a value beyond its limit.
        """
        return at_once(self.read_in_steps(frame))

    def read_in_steps(self, frame: memoryview) -> Steps[M]:
        """Read a message from a frame without its size, in steps for long lists. Raises FormatError and UnfitError."""
        cursor = Cursor(frame)
        if self.type_id is not None and cursor.fixed(_TYPE) != (self.type_id,):
            raise FormatError(f"the request type id is not {self.type_id}")
        values: list[Any] = []
        unfit: tuple[str, str] | None = None
        for field in self.fields:
            try:
                values.append(field.read(cursor) if field.in_steps is None else (yield from field.in_steps(cursor)))
            except UnfitError as error:
                if unfit is None:
                    unfit = (str(error), self.names[len(values)])
                values.append(None)
        cursor.end()
        if unfit is not None:
            raise UnfitError(*unfit)
        return self.message(*values)


CLUSTER_METADATA_REQUEST = Layout(messages.ClusterMetadataRequest, CLUSTER_METADATA, last(_ID))
CLUSTER_METADATA_RESPONSE = Layout(messages.ClusterMetadataResponse, None, INT16, INT32, _BROKERS)
REGISTER_CONSUMER_REQUEST = Layout(
    messages.RegisterConsumerRequest, REGISTER_CONSUMER, _ID, _ID, text(), BOOLEAN, text(_RESET_BYTES_MAX), INT32
)
REGISTER_CONSUMER_RESPONSE = Layout(messages.RegisterConsumerResponse, None, INT16)
PING_REQUEST = Layout(messages.PingRequest, PING, _ID, INT32)
PING_RESPONSE = Layout(messages.PingResponse, PING, INT16, _ID, last(_OFFSETS))
STOP_FETCHER_REQUEST = Layout(messages.StopFetcherRequest, STOP_FETCHER, _ID)
STOP_FETCHER_RESPONSE = Layout(messages.StopFetcherResponse, STOP_FETCHER, INT16, _ID, last(_OFFSETS))
START_FETCHER_REQUEST = Layout(messages.StartFetcherRequest, START_FETCHER, _ID, _OWNERSHIP, _BROKERS)
START_FETCHER_RESPONSE = Layout(messages.StartFetcherResponse, START_FETCHER, INT16, _ID)
