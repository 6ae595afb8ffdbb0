"""AcceptLogLoss (30008), version 0: a user gives up damaged offsets of a partition that no replica has (decision 46).

The request must name the offsets exactly as DescribeLogDamage reports them, which shows that the user has seen the
loss. Each range becomes a batch without records, which consumers skip and followers replicate. All ranges of a segment
must be accepted together, because its file is written once.
"""

import logging
from collections.abc import Awaitable

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.storage.damage.mending import MissingBatches, Supplied, mend, nothing_for
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log.replacing import ReplacingStoppedError
from broker_runtime.storage.segment.segment import Segment
from broker_runtime.storage.segment.stored_batches import DamagedFileError
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import AcceptLogLossRequest
from kafka_bytes.own_keys import ACCEPT_LOG_LOSS

log = logging.getLogger(__name__)


def handle(request: AcceptLogLossRequest, call: Call, context: BrokerContext) -> Fields | Awaitable[Fields]:
    try:
        leader = context.led(request.topic, request.partition)
        segments = _segments(leader.log, request.first_offset, request.next_offset)
    except KafkaError as error:
        return _answer(error)
    return _accept(leader, segments, f"client {call.client_id} at {call.connection.peer[0]}", context)


def _segments(damaged: Log, first_offset: int, next_offset: int) -> list[Segment]:
    """Segments whose damaged ranges all lie between the two offsets. Raises KafkaError."""
    known = damaged.damage
    if not known:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the leader of {damaged.place} has no damaged offsets")
    inside = [each for each in known if first_offset <= each.first_offset and each.next_offset <= next_offset]
    told = ", ".join(f"{each.first_offset} to {each.next_offset - 1}" for each in known[:10])
    if not inside or (inside[0].first_offset, inside[-1].next_offset) != (first_offset, next_offset):
        text = (
            f"offsets {first_offset} to {next_offset - 1} of {damaged.place} are not exactly the damaged ranges: {told}"
        )
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    start, segments = damaged.log_start_offset, []
    for segment in damaged.segments:
        ranges = [each for each in segment.damage if each.next_offset > start]
        chosen = [each for each in ranges if first_offset < each.next_offset <= next_offset]
        if chosen and len(chosen) < len(ranges):
            first, last = max(ranges[0].first_offset, start), ranges[-1].next_offset - 1
            text = (
                f"the damaged offsets {first} to {last} of {damaged.place} are in one segment: accept the loss of "
                "all of them"
            )
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        if chosen:
            segments.append(segment)
    return segments


async def _accept(leader: LeaderReplica, segments: list[Segment], who: str, context: BrokerContext) -> Fields:
    damaged, leader_epoch = leader.log, leader.leader_epoch

    async def nothing(wanted: MissingBatches) -> Supplied:
        """Return a replacement without records.

        Raises KafkaError if a new leader, which may have the records, was elected.
        """
        now = context.led(damaged.topic, damaged.partition)
        if now.log is not damaged or now.leader_epoch != leader_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{damaged.place} has a new leader epoch; try again")
        return nothing_for(wanted)

    try:
        for segment in segments:
            ranges = [each for each in segment.damage if each.next_offset > damaged.log_start_offset]
            await mend(damaged, segment, nothing)
            for each in ranges:
                offsets = each.first_offset, each.next_offset - 1
                log.error("%s: the loss of offsets %d to %d was accepted by %s", damaged.place, *offsets, who)
            context.logs.damage.accepted_ranges += len(ranges)
    except DamagedFileError as error:
        text = f"{damaged.place} has more damage than was known; list the damage again: {error.message}"
        return _answer(KafkaError(error.code, text))
    except KafkaError as error:
        return _answer(error)
    except (OSError, ReplacingStoppedError) as error:
        return _answer(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{damaged.place} is still damaged: {error}"))
    return _answer(None)


def _answer(error: KafkaError | None) -> Fields:
    if error is None:
        return {"error_code": ErrorCode.NONE}
    return {"error_code": error.code, "error_message": error.message}


API = ApiSpec(key=ACCEPT_LOG_LOSS, name="AcceptLogLoss", versions=(0, 0), handle=handle)
