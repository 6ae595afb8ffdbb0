"""ConsumerGroupHeartbeat (68), versions 0 and 1 (KIP-848): a member joins, stays, changes its subscription or leaves.

Read and packed by hand, because every member sends one every few seconds, and nearly all only keep the session alive.
Such a heartbeat is answered at once if the coordinator is idle. From version 1 on a member generates its own id, and
may subscribe by a regular expression.
"""

from collections.abc import Awaitable, Iterator
from struct import Struct, pack, unpack
from uuid import UUID

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.apis.request.many_items import Pace, Packed, kept
from broker_runtime.config.keys.groups import CONSUMER
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.consumer.heartbeat import ConsumerHeartbeatAnswer, heartbeat, settled
from broker_runtime.groups.consumer.state.member import are_many
from broker_runtime.groups.consumer.state.validity import ConsumerHeartbeatRequest
from broker_runtime.groups.records import Assignment
from broker_runtime.slicing.steps import Steps, at_once, chosen, each, listed
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.encoding.writer import array_length, nullable_string, string
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import CONSUMER_GROUP_HEARTBEAT

_REGEX_SINCE = 1
_SHORT_BYTES = 1_024
"""Requests larger than this are read in steps, because they may name many topics."""
_INT32 = Struct(">i")
_INT32_BYTES = 4
_TOPICS_OF_A_STEP = 8
_THROTTLE_ERROR_AND_NO_MESSAGE = Struct(">ihx")
_THROTTLE_AND_ERROR = Struct(">ih")
_EPOCH_AND_INTERVAL = Struct(">ii")
_ASSIGNMENT = b"\x01"
_NO_ASSIGNMENT = b"\xff"
_NO_TAGS = b"\x00"
_NO_MEMBER = b"\x00" + _EPOCH_AND_INTERVAL.pack(0, 0) + _NO_ASSIGNMENT


def handle(
    reader: RequestReader, call: Call, context: BrokerContext
) -> Reply | Awaitable[Reply] | Steps[Reply | Awaitable[Reply]]:
    """Answer a ConsumerGroupHeartbeat. Raises ProtocolError if the frame is malformed or too large."""
    if reader.left > _SHORT_BYTES:
        return _beat_in_steps(kept(reader, call), call, context)
    request = read(reader, call)
    return _beat_at_once(request, at_once(_denial(request, call)), call, context)


def _beat_in_steps(reader: RequestReader, call: Call, context: BrokerContext) -> Steps[Reply | Awaitable[Reply]]:
    """Answer the heartbeat of a member that names very many topics."""
    request = yield from read_in_steps(reader, call)
    return _beat_at_once(request, (yield from _denial(request, call)), call, context)


def _beat_at_once(
    request: ConsumerHeartbeatRequest, denial: ErrorCode, call: Call, context: BrokerContext
) -> Reply | Awaitable[Reply]:
    if CONSUMER not in context.settings.config.group_coordinator_rebalance_protocols:
        return _refusal(
            ErrorCode.UNSUPPORTED_VERSION, "group.coordinator.rebalance.protocols does not contain consumer", call
        )
    if denial:
        return _refusal(denial, None, call)
    answer = context.groups.at_once(request.group_id, lambda state, environment: settled(state, environment, request))
    return _beat(request, call, context) if answer is None else _packed(answer, call)


def _denial(request: ConsumerHeartbeatRequest, call: Call) -> Steps[ErrorCode]:
    """Return the error of a client that may not read the group, or not describe a topic that it names."""
    access = call.access
    if access is None:
        return ErrorCode.NONE
    if not access.group(request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    denied = yield from chosen(request.subscribed_topic_names or (), lambda name: not access.topic(name))
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED if denied else ErrorCode.NONE


async def _beat(request: ConsumerHeartbeatRequest, call: Call, context: BrokerContext) -> Reply:
    try:
        answer = await context.groups.submit(
            request.group_id, lambda state, environment: heartbeat(state, environment, request)
        )
    except KafkaError as error:
        return _refusal(error.code, error.message, call)
    if answer.assignment is None or not are_many(answer.assignment):
        return _packed(answer, call)
    packed = Packed(Pace(call))
    for part in _parts(answer, call):
        await packed.add(part)
    return packed.reply(call)


def read(reader: RequestReader, call: Call) -> ConsumerHeartbeatRequest:
    """Read a short ConsumerGroupHeartbeat request. Raises ProtocolError."""
    return at_once(read_in_steps(reader, call))


def read_in_steps(reader: RequestReader, call: Call) -> Steps[ConsumerHeartbeatRequest]:
    """Read a ConsumerGroupHeartbeat request in steps. Raises ProtocolError and RequestTooLargeError."""
    group_id, member_id = reader.string(), reader.string()
    (member_epoch,) = reader.fixed(_INT32)
    instance_id, rack_id = reader.nullable_string(), reader.nullable_string()
    (rebalance_timeout_ms,) = reader.fixed(_INT32)
    names = reader.nullable_array_length()
    subscribed = None if names < 0 else tuple((yield from each(range(names), lambda _: reader.string())))
    regex = reader.nullable_string() if call.version >= _REGEX_SINCE else None
    assignor = reader.nullable_string()
    topics = reader.nullable_array_length()
    owned = None if topics < 0 else (yield from _read_owned(reader, topics))
    reader.end_struct()
    return ConsumerHeartbeatRequest(
        group_id,
        member_id,
        member_epoch,
        instance_id,
        rack_id,
        rebalance_timeout_ms,
        subscribed,
        regex,
        assignor,
        owned,
        call.client_id or "",
        f"/{call.connection.peer[0]}",
        call.version,
        None if call.access is None else call.access.topic_filter,
    )


def _read_owned(reader: RequestReader, topics: int) -> Steps[Assignment]:
    """Read the owned partitions. If a topic is named twice, its partitions are combined."""
    owned: dict[UUID, list[int]] = {}
    for _ in range(topics):
        partitions = owned.setdefault(reader.uuid(), [])
        count = reader.array_length()
        partitions += unpack(f">{count}i", reader.view(count * _INT32_BYTES))
        reader.end_struct()
        yield
    found: dict[UUID, tuple[int, ...]] = {}
    for number, topic_id in enumerate((yield from listed(owned))):
        found[topic_id] = tuple(owned.pop(topic_id))
        if number % _TOPICS_OF_A_STEP == 0:
            yield
    return found


def _packed(answer: ConsumerHeartbeatAnswer, call: Call) -> Reply:
    return call.packed(b"".join(_parts(answer, call)))


def _parts(answer: ConsumerHeartbeatAnswer, call: Call) -> Iterator[bytes]:
    """Yield the body of the response. Each topic is a part of its own."""
    yield _THROTTLE_ERROR_AND_NO_MESSAGE.pack(call.throttle_ms, ErrorCode.NONE)
    yield string(answer.member_id, call.flexible)
    yield _EPOCH_AND_INTERVAL.pack(answer.member_epoch, answer.heartbeat_interval_ms)
    if answer.assignment is None:
        yield _NO_ASSIGNMENT
    else:
        yield _ASSIGNMENT + array_length(len(answer.assignment), flexible=True)
        for topic_id, partitions in answer.assignment.items():
            count = len(partitions)
            yield topic_id.bytes + array_length(count, flexible=True) + pack(f">{count}i", *partitions) + _NO_TAGS
        yield _NO_TAGS
    yield _NO_TAGS


def _refusal(code: ErrorCode, message: str | None, call: Call) -> Reply:
    call.error = code
    head = _THROTTLE_AND_ERROR.pack(call.throttle_ms, code)
    return call.packed(head + nullable_string(message, call.flexible) + _NO_MEMBER + _NO_TAGS)


API = ApiSpec(CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", (0, 1), handle, reads="frame")
