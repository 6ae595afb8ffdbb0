"""The three APIs for damaged ranges of logs, version 0 each, as classes of kio's form (decision 46). Pure.

ReplicaRange: one broker reads batches of another's replica, to mend its own. DescribeLogDamage: the offsets that one
broker cannot read. AcceptLogLoss: a person gives up offsets of a partition that no replica has any more. None of them
has tagged fields.
"""

from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.primitive import i16, i32, i64

from kafka_bytes.messages.form import PartForm, RequestForm, ResponseForm
from kafka_bytes.own_keys import ACCEPT_LOG_LOSS, DESCRIBE_LOG_DAMAGE, REPLICA_RANGE

_INT32 = {"kafka_type": "int32"}
_INT64 = {"kafka_type": "int64"}
_STRING = {"kafka_type": "string"}
_ERROR_CODE = {"kafka_type": "error_code"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRangeRequest(RequestForm):
    """Request for the batches of a replica from `offset` on, below `next_offset`.

    A batch begins or ends at each of the two offsets.
    """

    __api_key__: ClassVar[i16] = i16(REPLICA_RANGE)
    topic_id: UUID | None = field(metadata={"kafka_type": "uuid"})
    partition: i32 = field(metadata=_INT32)
    leader_epoch: i32 = field(metadata=_INT32)
    offset: i64 = field(metadata=_INT64)
    next_offset: i64 = field(metadata=_INT64)
    max_bytes: i32 = field(metadata=_INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRangeResponse(ResponseForm):
    """Response with whole batches; the replica has no other batches below `covered_to`.

    `may_have_gaps` is true if the replica is or was compacted.
    """

    __api_key__: ClassVar[i16] = i16(REPLICA_RANGE)
    error_code: ErrorCode = field(metadata=_ERROR_CODE)
    error_message: str | None = field(metadata=_STRING, default=None)
    log_start_offset: i64 = field(metadata=_INT64, default=i64(-1))
    covered_to: i64 = field(metadata=_INT64, default=i64(-1))
    may_have_gaps: bool = field(metadata={"kafka_type": "bool"}, default=False)
    records: bytes = field(metadata={"kafka_type": "bytes"}, default=b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDamageRequest(RequestForm):
    """Request for the damaged ranges of the broker that receives it."""

    __api_key__: ClassVar[i16] = i16(DESCRIBE_LOG_DAMAGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableRange(PartForm):
    """A damaged range: offsets from `first_offset` up to `next_offset`, and why they cannot be read."""

    __api_key__: ClassVar[i16] = i16(DESCRIBE_LOG_DAMAGE)
    first_offset: i64 = field(metadata=_INT64)
    next_offset: i64 = field(metadata=_INT64)
    reason: str = field(metadata=_STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDamage(PartForm):
    """A replica with damaged ranges or, without ranges, a replica that is not served at all.

    `leader_id` is -1 without a leader; `repair` is the state of the repair, or why the replica is not served.
    """

    __api_key__: ClassVar[i16] = i16(DESCRIBE_LOG_DAMAGE)
    topic: str = field(metadata=_STRING)
    partition: i32 = field(metadata=_INT32)
    leader_id: i32 = field(metadata=_INT32)
    repair: str = field(metadata=_STRING)
    ranges: tuple[UnreadableRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDamageResponse(ResponseForm):
    """Response with the damaged ranges of a broker's logs.

    `ranges_total` counts all ranges; `partitions` may list fewer of them.
    """

    __api_key__: ClassVar[i16] = i16(DESCRIBE_LOG_DAMAGE)
    broker_id: i32 = field(metadata=_INT32)
    ranges_total: i32 = field(metadata=_INT32)
    partitions: tuple[ReplicaDamage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptLogLossRequest(RequestForm):
    """Request to give up the records of all damaged ranges of a leader's log between two offsets.

    A damaged range begins at `first_offset`, and one ends at `next_offset`.
    """

    __api_key__: ClassVar[i16] = i16(ACCEPT_LOG_LOSS)
    topic: str = field(metadata=_STRING)
    partition: i32 = field(metadata=_INT32)
    first_offset: i64 = field(metadata=_INT64)
    next_offset: i64 = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptLogLossResponse(ResponseForm):
    """Response to AcceptLogLoss.

    Without an error, consumers skip the offsets from now on, and this cannot be undone.
    """

    __api_key__: ClassVar[i16] = i16(ACCEPT_LOG_LOSS)
    error_code: ErrorCode = field(metadata=_ERROR_CODE)
    error_message: str | None = field(metadata=_STRING, default=None)
