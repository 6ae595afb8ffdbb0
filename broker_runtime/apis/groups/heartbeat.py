"""Heartbeat (12), versions 0 to 4: a heartbeat of a member of a classic group. Read and packed by hand.

While the group is being loaded, the answer is success, as in Apache Kafka: after an error the member would only retry.
"""

from collections.abc import Awaitable
from struct import Struct

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.classic.heartbeats import heartbeat
from broker_runtime.groups.classic.requests import HeartbeatRequest
from broker_runtime.groups.consumer.classic_members import CLASSIC_MEMBERS
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import HEARTBEAT

_THROTTLE_SINCE = 1
_INSTANCE_SINCE = 3
_INT32 = Struct(">i")
_ERROR = Struct(">h")
_THROTTLE_AND_ERROR = Struct(">ih")


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> Reply | Awaitable[Reply]:
    group_id = reader.string()
    (generation,) = reader.fixed(_INT32)
    member_id = reader.string()
    instance_id = reader.nullable_string() if call.version >= _INSTANCE_SINCE else None
    reader.end_struct()
    request = HeartbeatRequest(group_id, member_id, generation, instance_id)
    error = context.groups.at_once(
        group_id, lambda state, environment: heartbeat(state, environment, request, CLASSIC_MEMBERS)[1]
    )
    return _beat(request, call, context) if error is None else _packed(error, call)


async def _beat(request: HeartbeatRequest, call: Call, context: BrokerContext) -> Reply:
    try:
        error = await context.groups.submit(
            request.group_id, lambda state, environment: heartbeat(state, environment, request, CLASSIC_MEMBERS)
        )
    except KafkaError as refused:
        loading = refused.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        error = ErrorCode.NONE if loading else refused.code
    return _packed(error, call)


def _packed(error: ErrorCode, call: Call) -> Reply:
    call.error = error
    if call.version < _THROTTLE_SINCE:
        return call.packed(_ERROR.pack(error))
    return call.packed(_THROTTLE_AND_ERROR.pack(call.throttle_ms, error) + (b"\x00" if call.flexible else b""))


API = ApiSpec(HEARTBEAT, "Heartbeat", (0, 4), handle, reads="frame")
