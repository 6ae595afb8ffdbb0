"""BrokerMetadata, version 0: the seed's layouts byte for byte, as classes of kio's form. Pure.

A request is an array of int32 node ids. The response is an array of brokers. Each has an id (int32), a host (string), a
port, the lowest and the highest protocol version (int32 each), and an array of tags (string, string). There is no error
code. Neither message has tagged fields: the headers are those of versions before KIP-482.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.request_header.v1.header import RequestHeader
from kio.schema.response_header.v0.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32

from kafka_bytes.own_keys import BROKER_METADATA

_INT32 = {"kafka_type": "int32"}
_STRING = {"kafka_type": "string"}
_KEY = i16(BROKER_METADATA)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMetadataRequest:
    """The ids of the requested brokers; without ids all brokers."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = _KEY
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    node_ids: tuple[i32, ...] = field(metadata=_INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """One statement of a broker about itself."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = _KEY
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    key: str = field(metadata=_STRING)
    value: str = field(metadata=_STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedBroker:
    """A broker, with the address of the listener that received the request."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = _KEY
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    node_id: i32 = field(metadata=_INT32)
    host: str = field(metadata=_STRING)
    port: i32 = field(metadata=_INT32)
    protocol_version_min: i32 = field(metadata=_INT32)
    protocol_version_max: i32 = field(metadata=_INT32)
    tags: tuple[Tag, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMetadataResponse:
    """The requested brokers that exist."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = _KEY
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    brokers: tuple[DescribedBroker, ...]
