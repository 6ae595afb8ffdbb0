"""A follower's requests to its leader besides Fetch: where an epoch ends (KIP-101), and where the log starts."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.replication.following.follower import FollowerReplica
from broker_runtime.wire.messages import decode_response, encode_request_body
from broker_runtime.wire.versions import LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH

_EPOCHS_VERSION = 4
_LIST_OFFSETS_VERSION = 7
_EARLIEST = -2

Exchange = Callable[[int, int, bytes], Awaitable[memoryview]]
"""A function that sends API key, version and body, and returns the response's body. It raises KafkaError."""


class EpochEnd(NamedTuple):
    """The leader's greatest epoch up to the requested one, and the offset where that epoch ends in the leader's log."""

    code: ErrorCode
    leader_epoch: int
    end_offset: int


class LogStart(NamedTuple):
    """The start of the leader's log, or the error code of its response."""

    code: ErrorCode
    offset: int


async def epoch_ends(
    exchange: Exchange, broker_id: int, asked: Sequence[FollowerReplica]
) -> Mapping[FollowerReplica, EpochEnd]:
    """Ask the leader where each replica's latest epoch ends. Raises KafkaError."""
    by_topic: dict[str, list[FollowerReplica]] = {}
    for replica in asked:
        by_topic.setdefault(replica.topic, []).append(replica)
    topics = [
        {
            "topic": topic,
            "partitions": [
                {
                    "partition": r.index,
                    "current_leader_epoch": r.leader_epoch,
                    "leader_epoch": r.log.latest_epoch,
                }
                for r in replicas
            ],
        }
        for topic, replicas in by_topic.items()
    ]
    body = encode_request_body(OFFSET_FOR_LEADER_EPOCH, _EPOCHS_VERSION, {"replica_id": broker_id, "topics": topics})
    answer = await exchange(OFFSET_FOR_LEADER_EPOCH, _EPOCHS_VERSION, body)
    found = {
        (topic.topic, part.partition): EpochEnd(ErrorCode(int(part.error_code)), part.leader_epoch, part.end_offset)
        for topic in decode_response(OFFSET_FOR_LEADER_EPOCH, _EPOCHS_VERSION, answer).topics
        for part in topic.partitions
    }
    ends = {}
    for replica in asked:
        end = found.get((replica.topic, replica.index))
        if end is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the leader's response lacks {replica}")
        ends[replica] = end
    return ends


async def log_start(exchange: Exchange, broker_id: int, replica: FollowerReplica) -> LogStart:
    """Ask the leader for the start of its log of this replica. Raises KafkaError."""
    partition = {
        "partition_index": replica.index,
        "current_leader_epoch": replica.leader_epoch,
        "timestamp": _EARLIEST,
    }
    content = {
        "replica_id": broker_id,
        "isolation_level": 0,
        "topics": [{"name": replica.topic, "partitions": [partition]}],
    }
    answer = await exchange(
        LIST_OFFSETS, _LIST_OFFSETS_VERSION, encode_request_body(LIST_OFFSETS, _LIST_OFFSETS_VERSION, content)
    )
    for topic in decode_response(LIST_OFFSETS, _LIST_OFFSETS_VERSION, answer).topics:
        for part in topic.partitions:
            return LogStart(ErrorCode(int(part.error_code)), part.offset)
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the leader's response lacks {replica}")
