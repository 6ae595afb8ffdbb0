"""Sends wanted in-sync sets to the controller: AlterPartition (KIP-497), many partitions in one request.

One request at a time. A change stays pending until it is certainly rejected or the metadata log has a newer state of
the partition. A lost response may have been a success, and a success does not include which replicas are eligible now.
"""

from collections.abc import Iterable, Mapping, Sequence

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.replication.peer import Controller
from broker_runtime.wire.messages import Entity, Fields
from broker_runtime.wire.versions import ALTER_PARTITION

_VERSION = 3
PARTITIONS_PER_REQUEST = 1_000
_REFUSED_FOR_GOOD = frozenset(
    (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INVALID_REQUEST)
)
"""Errors that leave the set unchanged; after all other errors newer metadata will arrive.

A controller of an older release answers a hand-over with INVALID_REQUEST.
"""


async def send(
    controller: Controller, broker_id: int, broker_epoch: int, leaders: Sequence[LeaderReplica]
) -> Mapping[LeaderReplica, str]:
    """Send the pending changes of in-sync sets to the controller; return the reason for each rejected one.

    Raises KafkaError when the controller cannot be reached or rejects the whole request. The caller then sends the
    changes again.
    """
    answer = await controller.request(ALTER_PARTITION, _VERSION, _request(broker_id, broker_epoch, leaders))
    code = ErrorCode(int(answer.error_code))
    if code != ErrorCode.NONE:
        raise KafkaError(code, "the controller refused to alter partitions")
    asked = {(leader.topic_id, leader.index): leader for leader in leaders}
    refused = {}
    for topic in answer.topics:
        for part in topic.partitions:
            leader = asked.get((topic.topic_id, part.partition_index))
            why = None if leader is None else _take(leader, part)
            if leader is not None and why is not None:
                refused[leader] = why
    return refused


def _request(broker_id: int, broker_epoch: int, leaders: Iterable[LeaderReplica]) -> Fields:
    topics: dict[object, list[Fields]] = {}
    for leader in leaders:
        change = leader.pending
        if change is None:
            continue
        topics.setdefault(leader.topic_id, []).append(
            {
                "partition_index": leader.index,
                "leader_epoch": leader.leader_epoch,
                "new_isr_with_epochs": [{"broker_id": r, "broker_epoch": change.epochs[r]} for r in change.isr],
                "leader_recovery_state": 0,
                "partition_epoch": change.partition_epoch,
            }
        )
    return {
        "broker_id": broker_id,
        "broker_epoch": broker_epoch,
        "topics": [{"topic_id": topic_id, "partitions": parts} for topic_id, parts in topics.items()],
    }


def _take(leader: LeaderReplica, part: Entity) -> str | None:
    """Why the change was rejected; None if it was accepted."""
    code = ErrorCode(int(part.error_code))
    if code == ErrorCode.NONE:
        if part.partition_epoch == leader.partition_epoch:
            # Nothing was changed, so the metadata log will have no new state.
            leader.refused()
        return None
    if code in _REFUSED_FOR_GOOD:
        leader.refused()
        return code.name
    return f"{code.name}: this broker does not have the newest metadata yet"
