"""ListGroups (16), versions 0 to 5 (filters of states from version 4, KIP-518; of types from version 5, KIP-848).

All groups of this broker. While it is loading some of them it says COORDINATOR_LOAD_IN_PROGRESS, and where it cannot
load them COORDINATOR_NOT_AVAILABLE: a list without them would look like a whole one. Clients ask again.
"""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.group import Group
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.versions import LIST_GROUPS

_STATES_SINCE = 4
_TYPES_SINCE = 5
_SLICE = 500
"""Groups that are looked at in one turn of the event loop."""


async def handle(request: Any, call: Call, context: BrokerContext) -> Fields:
    """`request` is kio's entity of whichever version."""
    states = _lower(request.states_filter) if call.version >= _STATES_SINCE else frozenset()
    types = _lower(request.types_filter) if call.version >= _TYPES_SINCE else frozenset()
    found: list[Fields] = []
    for index, term in list(context.groups.terms.items()):
        try:
            groups = await term.submit(lambda state, _: ((), list(state.groups.values())))
        except KafkaError as error:
            if error.code != ErrorCode.NOT_COORDINATOR:
                return {"error_code": error.code, "groups": []}
            if index in context.groups.problems:
                return {"error_code": ErrorCode.COORDINATOR_NOT_AVAILABLE, "groups": []}
            # It was lost just now: whoever has it tells of its groups.
            continue
        for begin in range(0, len(groups), _SLICE):
            found += _listed(groups[begin : begin + _SLICE], states, types)
            await asyncio.sleep(0)
    return {"error_code": ErrorCode.NONE, "groups": found}


def _lower(names: Sequence[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


def _listed(groups: Sequence[Group], states: Collection[str], types: Collection[str]) -> list[Fields]:
    """No filter lets everything pass."""
    return [
        {
            "group_id": group.group_id,
            "protocol_type": group.protocol_type,
            "group_state": group.state_name,
            "group_type": group.type.value,
        }
        for group in groups
        if (not states or group.state_name.lower() in states) and (not types or group.type.value in types)
    ]


API = ApiSpec(LIST_GROUPS, "ListGroups", (0, 5), handle)
