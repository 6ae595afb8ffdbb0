"""ListGroups (16), versions 0 to 5 (filters of states from version 4, KIP-518; of types from version 5, KIP-848).

All groups of this broker. While it is loading some of them it says COORDINATOR_LOAD_IN_PROGRESS, and where it cannot
load them COORDINATOR_NOT_AVAILABLE: a list without them would look like a whole one. Clients ask again.

Packed by hand and over many turns: there may be tens of thousands.
"""

import asyncio
from collections.abc import Collection, Sequence
from struct import Struct
from typing import Any

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.group import Group
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import LIST_GROUPS
from broker_runtime.wire.writer import array_length, string

_THROTTLE_SINCE = 1
_STATES_SINCE = 4
_TYPES_SINCE = 5
_SLICE = 250
"""Groups that are looked at and packed in one turn of the event loop."""
_INT16, _INT32 = Struct(">h"), Struct(">i")


async def handle(request: Any, call: Call, context: BrokerContext) -> Reply:
    """`request` is kio's entity of whichever version."""
    try:
        return _answer(ErrorCode.NONE, await _groups(request, call, context), call)
    except KafkaError as error:
        return _answer(error.code, [], call)


async def _groups(request: Any, call: Call, context: BrokerContext) -> list[bytes]:
    """Each of them packed. Raises KafkaError where not all can be told."""
    states = _lower(request.states_filter) if call.version >= _STATES_SINCE else frozenset()
    types = _lower(request.types_filter) if call.version >= _TYPES_SINCE else frozenset()
    found: list[bytes] = []
    for index, term in list(context.groups.terms.items()):
        try:
            groups = await term.submit(lambda state, _: ((), list(state.groups.values())))
        except KafkaError as error:
            if error.code != ErrorCode.NOT_COORDINATOR:
                raise
            if index in context.groups.problems:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, context.groups.problems[index]) from error
            # It was lost just now: whoever has it tells of its groups.
            continue
        for begin in range(0, len(groups), _SLICE):
            found += _listed(groups[begin : begin + _SLICE], states, types, call)
            await asyncio.sleep(0)
    return found


def _lower(names: Sequence[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


def _listed(groups: Sequence[Group], states: Collection[str], types: Collection[str], call: Call) -> list[bytes]:
    """No filter lets everything pass."""
    found = []
    for group in groups:
        state, kind = group.state_name, group.type.value
        if (not states or state.lower() in states) and (not types or kind in types):
            found.append(_packed(group, state, kind, call))
    return found


def _packed(group: Group, state: str, kind: str, call: Call) -> bytes:
    version, flexible = call.version, call.flexible
    packed = string(group.group_id, flexible) + string(group.protocol_type, flexible)
    if version >= _STATES_SINCE:
        packed += string(state, flexible)
    if version >= _TYPES_SINCE:
        packed += string(kind, flexible)
    return packed + b"\x00" if flexible else packed


def _answer(code: ErrorCode, groups: Sequence[bytes], call: Call) -> Reply:
    call.error = code
    throttle = _INT32.pack(call.throttle_ms) if call.version >= _THROTTLE_SINCE else b""
    head = throttle + _INT16.pack(code) + array_length(len(groups), call.flexible)
    return call.packed(b"".join((head, *groups, b"\x00" if call.flexible else b"")))


API = ApiSpec(LIST_GROUPS, "ListGroups", (0, 5), handle)
