"""BrokerMetadata (docs/reference/broker-metadata.md): brokers' reports about themselves.

An API of this project's brokers. kio does not know this API, so its messages are defined here, in kio's form.
ApiVersions does not list it: a broker that does not serve it closes the connection, or answers with nothing.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.request_header.v1.header import RequestHeader
from kio.schema.response_header.v0.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32

from sluicegate_operator.kafka_admin.exchange import Exchange
from sluicegate_operator.kafka_admin.views import BrokerDescription

API_KEY = i16(30_000)

_VERSION = i16(0)
_INT32 = {"kafka_type": "int32"}
_STRING = {"kafka_type": "string"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMetadataRequest:
    """Request for some brokers; without ids, for all brokers."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = API_KEY
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    node_ids: tuple[i32, ...] = field(metadata=_INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """One tag of a broker."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = API_KEY
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    key: str = field(metadata=_STRING)
    value: str = field(metadata=_STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One broker, at its address on the listener that received the request."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = API_KEY
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    node_id: i32 = field(metadata=_INT32)
    host: str = field(metadata=_STRING)
    port: i32 = field(metadata=_INT32)
    protocol_version_min: i32 = field(metadata=_INT32)
    protocol_version_max: i32 = field(metadata=_INT32)
    tags: tuple[Tag, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMetadataResponse:
    """The response has no error code: an unknown broker is left out."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = API_KEY
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    brokers: tuple[Broker, ...]


def describe(broker_ids: Collection[int] = ()) -> Exchange[BrokerMetadataResponse, tuple[BrokerDescription, ...]]:
    request = BrokerMetadataRequest(node_ids=tuple(i32(one) for one in broker_ids))
    return Exchange(request, BrokerMetadataResponse, _read, listed=False)


def _read(reply: BrokerMetadataResponse) -> tuple[BrokerDescription, ...]:
    return tuple(
        BrokerDescription(
            id=broker.node_id,
            host=broker.host,
            port=broker.port,
            protocol_version_min=broker.protocol_version_min,
            protocol_version_max=broker.protocol_version_max,
            tags={tag.key: tag.value for tag in broker.tags},
        )
        for broker in reply.brokers
    )
