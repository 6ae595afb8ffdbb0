"""ConnectionShares, version 0, as classes of kio's form (decision 69). Pure.

A broker reports to the controller how many connections clients attempt under each rate of the cluster. The answer has
the broker's shares. Rates are thousandths of a connection a second. There are no tagged fields.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i64

from kafka_bytes.messages.form import PartForm, RequestForm, ResponseForm
from kafka_bytes.own_keys import CONNECTION_SHARES

_BOOL = {"kafka_type": "bool"}
_INT8 = {"kafka_type": "int8"}
_INT32 = {"kafka_type": "int32"}
_INT64 = {"kafka_type": "int64"}
_STRING = {"kafka_type": "string"}
_ERROR_CODE = {"kafka_type": "error_code"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedLimit(RequestForm):
    """One rate of the cluster on the reporting broker; `rate` 0 if the broker no longer has it."""

    __type__: ClassVar = EntityType.nested
    __api_key__: ClassVar[i16] = i16(CONNECTION_SHARES)
    name: str = field(metadata=_STRING)
    rate: i64 = field(metadata=_INT64)
    share: i64 = field(metadata=_INT64)
    demand: i64 = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSharesRequest(RequestForm):
    """Request of ConnectionShares: a broker's report.

    With `is_full`, `limits` are all limits of the broker, otherwise those that changed since the last answer.
    `answered` is the sequence of the last report whose answer the broker has applied, or -1.
    """

    __api_key__: ClassVar[i16] = i16(CONNECTION_SHARES)
    broker_id: i32 = field(metadata=_INT32)
    broker_epoch: i64 = field(metadata=_INT64)
    sequence: i32 = field(metadata=_INT32)
    answered: i32 = field(metadata=_INT32)
    is_full: bool = field(metadata=_BOOL)
    limits: tuple[ReportedLimit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedShare(PartForm):
    """A share of `rate` for the broker. Limits that are not in the answer keep their shares for another lease."""

    __api_key__: ClassVar[i16] = i16(CONNECTION_SHARES)
    name: str = field(metadata=_STRING)
    rate: i64 = field(metadata=_INT64)
    share: i64 = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSharesResponse(ResponseForm):
    """Response to ConnectionShares.

    `verdict`: 0 granted, 1 the next report must be full, 2 a later report was read before. `brokers` is the number of
    brokers among which the rates are divided. `more_soon`: the broker gets more when others have given up their shares.
    """

    __api_key__: ClassVar[i16] = i16(CONNECTION_SHARES)
    error_code: ErrorCode = field(metadata=_ERROR_CODE)
    verdict: int = field(metadata=_INT8, default=0)
    controller_epoch: i32 = field(metadata=_INT32, default=i32(-1))
    lease_ms: i32 = field(metadata=_INT32, default=i32(0))
    brokers: i32 = field(metadata=_INT32, default=i32(0))
    more_soon: bool = field(metadata=_BOOL, default=False)
    shares: tuple[GrantedShare, ...] = ()
