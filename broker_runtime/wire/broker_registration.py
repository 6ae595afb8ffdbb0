"""BrokerRegistration, version 4, with Sluicegate's own fields for a broker's description of itself. Pure.

They are tagged fields, which any controller that does not know them skips (KIP-482).
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest as KafkasRequest
from kio.schema.request_header.v2.header import RequestHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32

_FIRST_TAG = 10_000
"""Kafka numbers its tags from 0, and is far below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredTag:
    """One statement of a broker about itself, as in its registration."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(4)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(62)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    key: str = field(metadata={"kafka_type": "string"})
    value: str = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationRequest(KafkasRequest):
    """Kafka's BrokerRegistration request with Sluicegate's fields.

    A protocol version of -1 stands for one that the broker does not send.
    """

    protocol_version_min: i32 = field(metadata={"kafka_type": "int32", "tag": _FIRST_TAG}, default=i32(-1))
    protocol_version_max: i32 = field(metadata={"kafka_type": "int32", "tag": _FIRST_TAG + 1}, default=i32(-1))
    broker_tags: tuple[RegisteredTag, ...] = field(metadata={"tag": _FIRST_TAG + 2}, default=())
