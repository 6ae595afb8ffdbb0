"""DescribeLogDamage and AcceptLogLoss (docs/reference/durability.md): APIs of this project's brokers.

kio does not know these APIs, so their messages are defined here, in kio's form. ApiVersions does not list them: a
broker of an older release closes the connection, or answers with nothing.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v1.header import RequestHeader
from kio.schema.response_header.v0.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i64

from sluicegate_operator.kafka_admin.errors import check
from sluicegate_operator.kafka_admin.exchange import Exchange
from sluicegate_operator.kafka_admin.views import DamagedRange, DamagedReplica, LogDamage, node_or_none

SINCE_PROTOCOL = 5
"""Lowest protocol version of a broker that serves these APIs."""
DESCRIBE_KEY, ACCEPT_KEY = i16(30_007), i16(30_008)

_VERSION = i16(0)
_INT32 = {"kafka_type": "int32"}
_INT64 = {"kafka_type": "int64"}
_STRING = {"kafka_type": "string"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDamageRequest:
    """Request about the broker that receives it."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = DESCRIBE_KEY
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A range of offsets that cannot be read, and why."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = DESCRIBE_KEY
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    first_offset: i64 = field(metadata=_INT64)
    next_offset: i64 = field(metadata=_INT64)
    reason: str = field(metadata=_STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A replica of the broker that has such offsets."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = DESCRIBE_KEY
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    topic: str = field(metadata=_STRING)
    partition: i32 = field(metadata=_INT32)
    leader_id: i32 = field(metadata=_INT32)
    repair: str = field(metadata=_STRING)
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDamageResponse:
    """The damaged replicas. `ranges_total` also counts ranges for which the response has no space."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = DESCRIBE_KEY
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    broker_id: i32 = field(metadata=_INT32)
    ranges_total: i32 = field(metadata=_INT32)
    partitions: tuple[Replica, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptLogLossRequest:
    """Request to the leader of the partition."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = ACCEPT_KEY
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    topic: str = field(metadata=_STRING)
    partition: i32 = field(metadata=_INT32)
    first_offset: i64 = field(metadata=_INT64)
    next_offset: i64 = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptLogLossResponse:
    """Without an error, the loss is accepted permanently."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = ACCEPT_KEY
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata=_STRING, default=None)


def describe() -> Exchange[DescribeLogDamageResponse, LogDamage]:
    return Exchange(DescribeLogDamageRequest(), DescribeLogDamageResponse, _read, listed=False)


def _read(reply: DescribeLogDamageResponse) -> LogDamage:
    replicas = (
        DamagedReplica(
            one.topic,
            one.partition,
            node_or_none(one.leader_id),
            one.repair,
            tuple(DamagedRange(each.first_offset, each.next_offset - 1, each.reason) for each in one.ranges),
        )
        for one in reply.partitions
    )
    return LogDamage(reply.broker_id, reply.ranges_total, tuple(replicas))


def accept(topic: str, partition: int, first: int, last: int) -> Exchange[AcceptLogLossResponse, None]:
    """Accept lost offsets; `first` and `last` are lost offsets that `describe` reported."""
    request = AcceptLogLossRequest(
        topic=topic, partition=i32(partition), first_offset=i64(first), next_offset=i64(last + 1)
    )

    def read(reply: AcceptLogLossResponse) -> None:
        check(reply.error_code, reply.error_message, f"accepting a loss of {topic}-{partition}")

    return Exchange(request, AcceptLogLossResponse, read, repeatable=False, listed=False)
