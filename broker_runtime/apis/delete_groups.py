"""DeleteGroups (42), versions 0 to 2 (KIP-229): empty groups, with all that they have committed.

A group with very many offsets goes in slices, so that others are served meanwhile; one that gets a member in between
stays, without the offsets that are gone already.
"""

from typing import Any

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.offsets.delete import delete_group
from broker_runtime.groups.state import GroupsState
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.versions import DELETE_GROUPS


async def handle(request: Any, call: Call, context: BrokerContext) -> Fields:
    """`request` is kio's entity of whichever version."""
    wanted = dict.fromkeys(request.groups_names)
    return {"results": [{"group_id": each, "error_code": await _delete(each, context)} for each in wanted]}


async def _delete(group_id: str, context: BrokerContext) -> ErrorCode:
    def decide(state: GroupsState, _: GroupEnvironment) -> Any:
        return delete_group(state, group_id)

    try:
        while await context.groups.submit(group_id, decide):
            pass
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


API = ApiSpec(DELETE_GROUPS, "DeleteGroups", (0, 2), handle)
