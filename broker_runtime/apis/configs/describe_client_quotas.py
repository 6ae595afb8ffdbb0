"""DescribeClientQuotas (48), versions 0 to 1 (KIP-546): any broker answers from its metadata.

The entries are packed in steps, because a connection group may have ten thousand members, each of them an entry.
"""

from collections.abc import Mapping
from functools import partial
from struct import Struct

from broker_runtime.apis.request.call import Call, check_response
from broker_runtime.apis.request.context import ApiSpec, NodeContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.quotas import QuotaEntity
from broker_runtime.metadata.describe_quotas import Component, Described, check_count, describe_quotas
from broker_runtime.slicing.steps import Steps, let_go
from broker_runtime.wire.encoding.encode import Pieces
from broker_runtime.wire.encoding.writer import array_length, nullable_string, string
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.requests import DescribeClientQuotasRequest
from broker_runtime.wire.versions import DESCRIBE_CLIENT_QUOTAS

_HEAD = Struct(">ih")
"""Throttle time in ms and error code."""
_FLOAT64 = Struct(">d")


def handle(request: DescribeClientQuotasRequest, call: Call, context: NodeContext) -> Steps[Fields | Reply]:
    try:
        check_count(len(request.components))
        components = [Component(c.entity_type, c.match_type, c.match) for c in request.components]
        found = yield from describe_quotas(components, request.strict, context.image)
    except KafkaError as error:
        return {"error_code": error.code, "error_message": error.message, "entries": None}
    return (yield from _packed(found, call))


def _packed(found: list[Described], call: Call) -> Steps[Reply]:
    flexible, pieces = call.flexible, Pieces(partial(check_response, call))
    pieces.add(_HEAD.pack(call.throttle_ms, ErrorCode.NONE) + nullable_string("", flexible))
    pieces.add(array_length(len(found), flexible))
    for entity, values in found:
        pieces.add(_entry(entity, values, flexible))
        yield
    pieces.add(_tags(flexible))
    yield from let_go(found)
    return call.packed_of(pieces.all())


def _entry(entity: QuotaEntity, values: Mapping[str, float], flexible: bool) -> bytes:
    tags = _tags(flexible)
    parts = [array_length(len(entity), flexible)]
    for kind, name in entity:
        parts += (string(kind, flexible), nullable_string(name, flexible), tags)
    parts.append(array_length(len(values), flexible))
    for key, value in sorted(values.items()):
        parts += (string(key, flexible), _FLOAT64.pack(value), tags)
    parts.append(tags)
    return b"".join(parts)


def _tags(flexible: bool) -> bytes:
    return b"\x00" if flexible else b""


API = ApiSpec(key=DESCRIBE_CLIENT_QUOTAS, name="DescribeClientQuotas", versions=(0, 1), handle=handle)
