"""FindCoordinator (10), versions 0 to 6 (KIP-699 for several keys at once): who leads the group's partition.

The first group makes __consumer_offsets; until it is there, and while the partition has no leader, the answer is
COORDINATOR_NOT_AVAILABLE, on which clients ask again. Transactions have no coordinator, which clients retry. There are
no share groups.
"""

from typing import cast

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, ProtocolError
from broker_runtime.groups.partition_of import partition_of
from broker_runtime.metadata.topic_names import GROUPS_TOPIC
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import FindCoordinatorRequest, FindCoordinatorRequestV3
from broker_runtime.wire.versions import FIND_COORDINATOR

_KEYS_MAX = 10_000
_GROUP, _TRANSACTION = 0, 1
_SEVERAL_SINCE = 4


def handle(request: FindCoordinatorRequest | FindCoordinatorRequestV3, call: Call, context: BrokerContext) -> Fields:
    key_type = request.key_type if call.version >= 1 else _GROUP
    if call.version < _SEVERAL_SINCE:
        return _coordinator(key_type, cast("FindCoordinatorRequestV3", request).key, call, context)
    keys = cast("FindCoordinatorRequest", request).coordinator_keys
    if len(keys) > _KEYS_MAX:
        raise ProtocolError("too-large", f"FindCoordinator for {len(keys)} keys; ask for at most {_KEYS_MAX} at once")
    return {"coordinators": [{"key": key, **_coordinator(key_type, key, call, context)} for key in keys]}


def _coordinator(key_type: int, key: str, call: Call, context: BrokerContext) -> Fields:
    if key_type not in (_GROUP, _TRANSACTION):
        return _nowhere(ErrorCode.INVALID_REQUEST, f"there is no coordinator of type {key_type}")
    if key_type == _TRANSACTION:
        return _nowhere(ErrorCode.COORDINATOR_NOT_AVAILABLE, "transactions are not served yet")
    topic = context.image.topics.get(GROUPS_TOPIC)
    if topic is None:
        context.auto_topic_creation.ask_for([GROUPS_TOPIC])
        return _nowhere(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{GROUPS_TOPIC} is being made; ask again")
    partition = topic.partitions.get(partition_of(key, len(topic.partitions)))
    leader = None if partition is None else context.image.brokers.get(partition.leader)
    endpoint = None if leader is None or leader.fenced else leader.endpoint(call.listener)
    if leader is None or endpoint is None:
        return _nowhere(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the group's partition of {GROUPS_TOPIC} has no leader; ask again"
        )
    return {
        "node_id": leader.id,
        "host": endpoint.host,
        "port": endpoint.port,
        "error_code": ErrorCode.NONE,
        "error_message": "" if call.version >= _SEVERAL_SINCE else ErrorCode.NONE.name,
    }


def _nowhere(code: ErrorCode, why: str) -> Fields:
    return {"node_id": -1, "host": "", "port": -1, "error_code": code, "error_message": why}


API = ApiSpec(key=FIND_COORDINATOR, name="FindCoordinator", versions=(0, 6), handle=handle)
