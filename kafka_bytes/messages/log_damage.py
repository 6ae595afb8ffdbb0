"""The three APIs for damaged ranges of logs, version 0 each, as classes of kio's form (decision 46). Pure.

ReplicaRange: one broker reads batches of another's replica, to mend its own. DescribeLogDamage: the offsets that one
broker cannot read. AcceptLogLoss: a person gives up offsets of a partition that no replica has any more. None of them
has tagged fields.
"""

from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v1.header import RequestHeader
from kio.schema.response_header.v0.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i64

from kafka_bytes.own_keys import ACCEPT_LOG_LOSS, DESCRIBE_LOG_DAMAGE, REPLICA_RANGE

_INT32 = {"kafka_type": "int32"}
_INT64 = {"kafka_type": "int64"}
_STRING = {"kafka_type": "string"}
_ERROR_CODE = {"kafka_type": "error_code"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRangeRequest:
    """Batches of a replica from `offset` on, below `next_offset`; batches begin or end at both offsets."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = i16(REPLICA_RANGE)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    topic_id: UUID | None = field(metadata={"kafka_type": "uuid"})
    partition: i32 = field(metadata=_INT32)
    leader_epoch: i32 = field(metadata=_INT32)
    offset: i64 = field(metadata=_INT64)
    next_offset: i64 = field(metadata=_INT64)
    max_bytes: i32 = field(metadata=_INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRangeResponse:
    """Whole batches; the replica has nothing else below `covered_to`. `may_have_gaps`: it is or was compacted."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = i16(REPLICA_RANGE)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    error_code: ErrorCode = field(metadata=_ERROR_CODE)
    error_message: str | None = field(metadata=_STRING, default=None)
    log_start_offset: i64 = field(metadata=_INT64, default=i64(-1))
    covered_to: i64 = field(metadata=_INT64, default=i64(-1))
    may_have_gaps: bool = field(metadata={"kafka_type": "bool"}, default=False)
    records: bytes = field(metadata={"kafka_type": "bytes"}, default=b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDamageRequest:
    """Requests the damage of the receiving broker; other brokers answer for themselves."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = i16(DESCRIBE_LOG_DAMAGE)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableRange:
    """Offsets from `first_offset` up to `next_offset`, and why they cannot be read."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = i16(DESCRIBE_LOG_DAMAGE)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    first_offset: i64 = field(metadata=_INT64)
    next_offset: i64 = field(metadata=_INT64)
    reason: str = field(metadata=_STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDamage:
    """A replica with damaged ranges, or, without ranges, one that is not served at all.

    `leader_id` is -1 without a leader; `repair` is the state of the repair, or why the replica is not served.
    """

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = i16(DESCRIBE_LOG_DAMAGE)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    topic: str = field(metadata=_STRING)
    partition: i32 = field(metadata=_INT32)
    leader_id: i32 = field(metadata=_INT32)
    repair: str = field(metadata=_STRING)
    ranges: tuple[UnreadableRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDamageResponse:
    """`ranges_total` counts all ranges; `partitions` may have fewer of them."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = i16(DESCRIBE_LOG_DAMAGE)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    broker_id: i32 = field(metadata=_INT32)
    ranges_total: i32 = field(metadata=_INT32)
    partitions: tuple[ReplicaDamage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptLogLossRequest:
    """All damaged ranges of a leader's log from `first_offset`, where one begins, to `next_offset`, where one ends."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = i16(ACCEPT_LOG_LOSS)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    topic: str = field(metadata=_STRING)
    partition: i32 = field(metadata=_INT32)
    first_offset: i64 = field(metadata=_INT64)
    next_offset: i64 = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptLogLossResponse:
    """The answer to AcceptLogLoss.

    Without an error, consumers skip the offsets from now on, and this cannot be undone.
    """

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = i16(ACCEPT_LOG_LOSS)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    error_code: ErrorCode = field(metadata=_ERROR_CODE)
    error_message: str | None = field(metadata=_STRING, default=None)
