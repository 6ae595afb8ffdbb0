"""DescribeClientQuotas (48), versions 0 to 1 (KIP-546): any broker answers from its metadata.

A connection group may have ten thousand members, and each is an entry: they are packed over turns.
"""

from collections.abc import Iterator, Mapping
from struct import Struct

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, NodeContext
from broker_runtime.apis.many_items import Packed
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.describe_quotas import Component, Described, describe_quotas
from broker_runtime.metadata.quotas import QuotaEntity
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.requests import DescribeClientQuotasRequest
from broker_runtime.wire.versions import DESCRIBE_CLIENT_QUOTAS
from broker_runtime.wire.writer import array_length, nullable_string, string

_HEAD = Struct(">ih")
"""Throttle time in ms and error."""
_FLOAT64 = Struct(">d")


async def handle(request: DescribeClientQuotasRequest, call: Call, context: NodeContext) -> Fields | Reply:
    components = [Component(c.entity_type, c.match_type, c.match) for c in request.components]
    try:
        found = describe_quotas(components, request.strict, context.image)
    except KafkaError as error:
        return {"error_code": error.code, "error_message": error.message, "entries": None}
    return (await _packed(found, call)).reply(call)


async def _packed(found: Iterator[Described], call: Call) -> Packed:
    flexible, count, entries = call.flexible, 0, Packed()
    for entity, values in found:
        count += 1
        await entries.add(_entry(entity, values, flexible))
    head = _HEAD.pack(call.throttle_ms, ErrorCode.NONE)
    packed = Packed(head, nullable_string("", flexible), array_length(count, flexible))
    await packed.add_all(entries)
    await packed.add(_tags(flexible))
    return packed


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
