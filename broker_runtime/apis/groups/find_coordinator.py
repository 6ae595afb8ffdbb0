"""FindCoordinator (10), versions 0 to 6 (KIP-699: several keys at once): the leader of the partition that has the key.

The key is a group, whose partition is one of __consumer_offsets, or a transactional id, whose partition is one of
__transaction_state. The first request for one of them creates the topic. Until the topic exists, and while the
partition has no leader, the answer is COORDINATOR_NOT_AVAILABLE, and clients retry. There are no share groups.

Read and packed by hand. Many keys take many iterations of the event loop.
"""

from collections.abc import Awaitable, Callable
from struct import Struct
from typing import NamedTuple

from broker_runtime.apis.request.access import WHY
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.apis.request.many_items import Pace, Packed, kept
from broker_runtime.coordination.partition_of import partition_of
from broker_runtime.errors import ErrorCode
from broker_runtime.groups.kinds import TEXT_BYTES_MAX
from broker_runtime.metadata.areas.topics import Partition
from broker_runtime.metadata.topic_names import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.encoding.writer import array_length, nullable_string, string
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import FIND_COORDINATOR

_GROUP, _TRANSACTION = 0, 1
_TYPE_SINCE = 1
_THROTTLE_AND_MESSAGE_SINCE = 1
_SEVERAL_SINCE = 4
_CHARACTERS_OF_AN_ITEM = 64
"""Number of characters that take as long to hash as a short key takes for everything else."""
_INT8, _INT16, _INT32 = Struct(">b"), Struct(">h"), Struct(">i")


class FoundCoordinator(NamedTuple):
    """The coordinator found for a partition, or for all keys if no partition is involved."""

    code: ErrorCode
    message: str
    node: int = -1
    host: str = ""
    port: int = -1


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> Reply | Awaitable[Reply]:
    if call.version >= _SEVERAL_SINCE:
        return _find_several(kept(reader, call), call, context)
    key = reader.string()
    (key_type,) = reader.fixed(_INT8) if call.version >= _TYPE_SINCE else (_GROUP,)
    found = _allowed_finder(key_type, call, context)(key)
    call.error = found.code
    shown = _place(found, call)
    told = _INT16.pack(found.code)
    if call.version >= _THROTTLE_AND_MESSAGE_SINCE:
        told = _INT32.pack(call.throttle_ms) + told + nullable_string(found.message, call.flexible)
    return call.packed(told + shown + (b"\x00" if call.flexible else b""))


async def _find_several(reader: RequestReader, call: Call, context: BrokerContext) -> Reply:
    (key_type,) = reader.fixed(_INT8)
    find, pace, tails = _allowed_finder(key_type, call, context), Pace(call), dict[FoundCoordinator, bytes]()
    count = reader.array_length()
    packed = Packed(pace, _INT32.pack(call.throttle_ms), array_length(count, call.flexible))
    for _ in range(count):
        key = reader.string()
        found = find(key)
        if found not in tails:
            call.error = call.error or found.code
            # As in Kafka, which sends the message of a denial only if a request has one key.
            message = "" if found.code == ErrorCode.NONE or found in _DENIED.values() else found.message
            told = _INT16.pack(found.code) + nullable_string(message, call.flexible)
            tails[found] = _place(found, call) + told + b"\x00"
        await packed.add(string(key, call.flexible) + tails[found])
        await pace.item(1 + len(key) // _CHARACTERS_OF_AN_ITEM)
    reader.end_struct()
    await packed.add(b"\x00")
    return packed.reply(call)


def coordinator_of(group_id: str, call: Call, context: BrokerContext) -> FoundCoordinator:
    """Return the coordinator of a group, for clients of the push protocol."""
    return _allowed_finder(_GROUP, call, context)(group_id)


def _allowed_finder(key_type: int, call: Call, context: BrokerContext) -> Callable[[str], FoundCoordinator]:
    """Return a function like that of `_finder`, which first checks whether the client may describe the key."""
    access = call.access
    if access is None or key_type not in _DENIED:
        return _finder(key_type, call.listener, context)
    finders: list[Callable[[str], FoundCoordinator]] = []

    def find(key: str) -> FoundCoordinator:
        if not (access.group(key) if key_type == _GROUP else access.transactional_id(key)):
            return _DENIED[key_type]
        if not finders:
            finders.append(_finder(key_type, call.listener, context))
        return finders[0](key)

    return find


def _place(found: FoundCoordinator, call: Call) -> bytes:
    return _INT32.pack(found.node) + string(found.host, call.flexible) + _INT32.pack(found.port)


def _finder(key_type: int, listener: str, context: BrokerContext) -> Callable[[str], FoundCoordinator]:
    """Return a function that finds the coordinator of a key. It reads the leader of each partition once per answer."""
    kind = _KINDS.get(key_type)
    topic = None if kind is None else context.image.topics.get(kind.topic)
    if kind is None:
        nowhere = FoundCoordinator(ErrorCode.INVALID_REQUEST, f"coordinator type {key_type} is not known")
    elif topic is None:
        context.auto_topic_creation.ask_for([kind.topic])
        nowhere = FoundCoordinator(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, f"topic {kind.topic} is being created; try again"
        )
    else:
        found: dict[int, FoundCoordinator] = {}
        partitions, too_long = topic.partitions, kind.too_long
        no_leader = f"the partition of {kind.topic} that has this key has no leader; try again"

        def find(key: str) -> FoundCoordinator:
            if len(key) > TEXT_BYTES_MAX:
                return too_long
            index = partition_of(key, len(partitions))
            if index not in found:
                found[index] = _leader(partitions.get(index), no_leader, listener, context)
            return found[index]

        return find
    return lambda _: nowhere


_DENIED = {
    kind: FoundCoordinator(code, WHY[code])
    for kind, code in (
        (_GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (_TRANSACTION, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    )
}


class _Kind(NamedTuple):
    """The topic with the records of one kind of key, and the answer to a key that is longer than a record allows."""

    topic: str
    too_long: FoundCoordinator


_KINDS = {
    _GROUP: _Kind(
        GROUPS_TOPIC,
        FoundCoordinator(ErrorCode.INVALID_GROUP_ID, f"a group id may have at most {TEXT_BYTES_MAX} bytes"),
    ),
    _TRANSACTION: _Kind(
        TRANSACTIONS_TOPIC,
        FoundCoordinator(ErrorCode.INVALID_REQUEST, f"a transactional id may have at most {TEXT_BYTES_MAX} bytes"),
    ),
}


def _leader(partition: Partition | None, no_leader: str, listener: str, context: BrokerContext) -> FoundCoordinator:
    leader = None if partition is None else context.image.brokers.get(partition.leader)
    endpoint = None if leader is None or leader.fenced else leader.endpoint(listener)
    if leader is None or endpoint is None:
        return FoundCoordinator(ErrorCode.COORDINATOR_NOT_AVAILABLE, no_leader)
    return FoundCoordinator(ErrorCode.NONE, ErrorCode.NONE.name, leader.id, endpoint.host, endpoint.port)


API = ApiSpec(FIND_COORDINATOR, "FindCoordinator", (0, 6), handle, reads="frame")
