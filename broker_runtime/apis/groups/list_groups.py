"""ListGroups (16), versions 0 to 5 (filters by state from version 4, KIP-518; by type from version 5, KIP-848).

The answer has all groups of this broker. While the broker loads some of them, it returns COORDINATOR_LOAD_IN_PROGRESS;
if it cannot load them, COORDINATOR_NOT_AVAILABLE. Without an error, clients would take the list for complete. Clients
retry after both codes.

Read and packed by hand, over many iterations of the event loop, because there may be tens of thousands of groups.
"""

from collections.abc import Awaitable, Collection, Sequence
from struct import Struct

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.apis.request.many_items import Pace, Packed, kept, read_names
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.group import Group
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.encoding.writer import array_length, string
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import LIST_GROUPS

_THROTTLE_SINCE = 1
_STATES_SINCE = 4
_TYPES_SINCE = 5
_INT16, _INT32 = Struct(">h"), Struct(">i")


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> Awaitable[Reply]:
    return _handle(kept(reader, call), call, context)


async def _handle(reader: RequestReader, call: Call, context: BrokerContext) -> Reply:
    pace = Pace(call)
    states = await _read_lower(reader, pace) if call.version >= _STATES_SINCE else ()
    types = await _read_lower(reader, pace) if call.version >= _TYPES_SINCE else ()
    try:
        groups = await _groups(context)
    except KafkaError as error:
        return await _answer(error.code, 0, Packed(pace), call, pace)
    count, listed = await _listed(groups, states, types, call, pace)
    return await _answer(ErrorCode.NONE, count, listed, call, pace)


async def _groups(context: BrokerContext) -> list[Sequence[Group]]:
    """Return the groups of each partition. Raises KafkaError if some groups are not available."""
    if context.groups.hosted.awaited():
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "this broker is still loading its groups; try again")
    found: list[Sequence[Group]] = []
    for index, term in list(context.groups.terms.items()):
        try:
            found.append(await term.submit(lambda state, _: ((), list(state.groups.values()))))
        except KafkaError as error:
            if error.code != ErrorCode.NOT_COORDINATOR:
                raise
            if index in context.groups.problems:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, context.groups.problems[index]) from error
            # This broker has just lost the partition. The new coordinator lists its groups.
    return found


async def _read_lower(reader: RequestReader, pace: Pace) -> Collection[str]:
    lower = set()
    for name in await read_names(reader, pace):
        lower.add(name.lower())
        await pace.item()
    return lower


async def _listed(
    groups: Sequence[Sequence[Group]], states: Collection[str], types: Collection[str], call: Call, pace: Pace
) -> tuple[int, Packed]:
    """Return the number of groups that pass the filters, and these groups packed. An empty filter passes all groups."""
    count, packed, access = 0, Packed(pace), call.access
    if access is not None and access.cluster(hides=True):
        access = None
    for of_partition in groups:
        for group in of_partition:
            state, kind = group.state_name, group.type.shown
            is_wanted = (not states or state.lower() in states) and (not types or kind in types)
            if is_wanted and (access is None or access.group(group.group_id, hides=True)):
                count += 1
                await packed.add(_packed(group, state, kind, call))
            await pace.item()
    return count, packed


def _packed(group: Group, state: str, kind: str, call: Call) -> bytes:
    version, flexible = call.version, call.flexible
    packed = string(group.group_id, flexible) + string(group.protocol_type, flexible)
    if version >= _STATES_SINCE:
        packed += string(state, flexible)
    if version >= _TYPES_SINCE:
        packed += string(kind, flexible)
    return packed + b"\x00" if flexible else packed


async def _answer(code: ErrorCode, count: int, groups: Packed, call: Call, pace: Pace) -> Reply:
    call.error = code
    throttle = _INT32.pack(call.throttle_ms) if call.version >= _THROTTLE_SINCE else b""
    packed = Packed(pace, throttle, _INT16.pack(code))
    await packed.add(array_length(count, call.flexible))
    await packed.add_all(groups)
    await packed.add(b"\x00" if call.flexible else b"")
    return packed.reply(call)


API = ApiSpec(LIST_GROUPS, "ListGroups", (0, 5), handle, reads="frame")
