"""BrokerMetadata, version 0: the seed's layouts byte for byte, as classes of kio's form. Pure.

A request is an array of int32 node ids. The response is an array of brokers. Each has an id (int32), a host (string), a
port, the lowest and the highest protocol version (int32 each), and an array of tags (string, string). There is no error
code. Neither message has tagged fields: the headers are those of versions before KIP-482.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.static.primitive import i16, i32

from kafka_bytes.messages.form import PartForm, RequestForm, ResponseForm
from kafka_bytes.own_keys import BROKER_METADATA

_INT32 = {"kafka_type": "int32"}
_STRING = {"kafka_type": "string"}
_KEY = i16(BROKER_METADATA)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMetadataRequest(RequestForm):
    """Request of BrokerMetadata: the ids of the wanted brokers; without ids all brokers."""

    __api_key__: ClassVar[i16] = _KEY
    node_ids: tuple[i32, ...] = field(metadata=_INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag(PartForm):
    """One statement of a broker about itself."""

    __api_key__: ClassVar[i16] = _KEY
    key: str = field(metadata=_STRING)
    value: str = field(metadata=_STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedBroker(PartForm):
    """A broker in the response, with the address of the listener that received the request."""

    __api_key__: ClassVar[i16] = _KEY
    node_id: i32 = field(metadata=_INT32)
    host: str = field(metadata=_STRING)
    port: i32 = field(metadata=_INT32)
    protocol_version_min: i32 = field(metadata=_INT32)
    protocol_version_max: i32 = field(metadata=_INT32)
    tags: tuple[Tag, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMetadataResponse(ResponseForm):
    """Response to BrokerMetadata, with the wanted brokers that exist."""

    __api_key__: ClassVar[i16] = _KEY
    brokers: tuple[DescribedBroker, ...]
