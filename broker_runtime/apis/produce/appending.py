"""Appends the batches of a Produce request to their logs: the product's hot path.

If the records of a compressed or long batch must be checked, another thread does this before the append.
"""

from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import UUID

from broker_runtime.apis.produce.produce_answer import Refused, success, tail
from broker_runtime.apis.produce.produce_request import ProduceRequest
from broker_runtime.apis.produce.produce_wait import PendingPartition, ProduceWait, safe_below
from broker_runtime.apis.produce.record_checks import Unchecked, check_in_thread
from broker_runtime.apis.request.access import denied
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import BrokerContext
from broker_runtime.apis.request.dispatching.answering import joined
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.metadata.topic_names import INTERNAL_TOPICS
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.slicing.steps import Steps
from broker_runtime.storage.log.log_transactions import AppendResult
from broker_runtime.storage.records.record_check import check_records, is_quick
from broker_runtime.storage.records.transactions import VerificationGuard
from broker_runtime.storage.records.validation import check_batch, check_known_codec
from broker_runtime.wire.reply import NO_REPLY, Reply
from kafka_bytes.batches import TIMESTAMPS, TIMESTAMPS_AT, TRANSACTIONAL

_ZSTD_SINCE = 7
BY_ID_SINCE = 13
"""The first version that names topics by their ids."""
_ADMIN_CLIENT = "__admin_client"
"""A client with this client id may write to internal topics, as in Apache Kafka."""
FLAGS_AT = 22
"""Position of the lower byte of a batch's attributes."""


def name_now(topic: str | UUID, context: BrokerContext) -> str | UUID:
    """Return the current name of a topic that the request names by its id, or the id if the topic does not exist.

    It is looked up in each step, because the name may belong to another topic since the request was read.
    """
    known = context.image.topics.by_id(topic) if isinstance(topic, UUID) else None
    return topic if known is None else known.name


def asked_append(
    place: int,
    topic: str | UUID,
    index: int,
    records: memoryview | None,
    call: Call,
    context: BrokerContext,
    in_transaction: bool = False,
) -> Unchecked | tuple[LeaderReplica, AppendResult]:
    """Append the records of one partition, unless another thread must check them first. Raises KafkaError.

    `in_transaction`: the request has a transactional id, so that its batches may be transactional.
    """
    if not isinstance(topic, str):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic id {topic} does not exist")
    leader = context.led(topic, index)
    if call.version < _ZSTD_SINCE and records is not None:
        check_known_codec(records)
    if leader.log.config.checks_records and takes_long(records, leader, context):
        return Unchecked(place, topic, leader.topic_id, index, bytes(records or b""), leader.log.config)
    return leader, append(call, leader, records, in_transaction)


def append(
    call: Call,
    leader: LeaderReplica,
    records: memoryview | None,
    in_transaction: bool = False,
    guard: VerificationGuard | None = None,
) -> AppendResult:
    """Append one batch. Raises KafkaError.

    A batch that opens a transaction presents its `guard`. `in_transaction`: the request has a transactional id.
    """
    if leader.topic in INTERNAL_TOPICS and call.client_id != _ADMIN_CLIENT:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{leader.topic} is internal: only brokers write to it")
    if call.acks == -1 and leader.is_under_min_isr:
        raise KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{leader.topic}-{leader.index} has {len(leader.isr)} in-sync replicas, fewer than min.insync.replicas",
        )
    if not records:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, "a produce request must have exactly one record batch for each partition"
        )
    if in_transaction:
        done = leader.log.append(records, leader_epoch=leader.leader_epoch, guard=guard)
    else:
        if len(records) > FLAGS_AT and records[FLAGS_AT] & TRANSACTIONAL:
            raise denied(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        done = leader.log.append(records, leader_epoch=leader.leader_epoch)
    if call.partitions is not None:
        base, last = done.base_offset, done.last_offset
        first_ms, max_ms = TIMESTAMPS.unpack_from(records, TIMESTAMPS_AT)
        call.partitions.append(
            (leader.topic, leader.index, len(records), last - base + 1, base, last, first_ms, max_ms, 0)
        )
    return done


def takes_long(records: memoryview | None, leader: LeaderReplica, context: BrokerContext) -> bool:
    """Whether another thread must check these records. Otherwise this checks them, and raises KafkaError to refuse."""
    if not records:
        return False
    config = leader.log.config
    check_batch(records, config, context.clock.wall_ms())
    if not is_quick(records):
        return True
    check_records(records, config, len(records), f"{leader.topic}-{leader.index}")
    return False


def longest_wait_s(acks: int, timeout_ms: int) -> float | None:
    """Return the maximum wait in seconds. None with acks=1, which waits only for the disk."""
    return None if acks == 1 else max(timeout_ms, 0) / 1000


def no_reply(refused: Refused | None) -> Reply:
    """Return the empty reply of acks=0.

    Raises ProtocolError if a partition was refused, because the client gets no answer.
    """
    if refused is not None:
        raise ProtocolError(*_refused_without_reply(refused))
    return NO_REPLY


def _refused_without_reply(refused: Refused) -> tuple[str, str]:
    """Return the kind under which the connection's end is counted, and its reason."""
    return "acks-0-failed", f"a produce request with acks=0 failed: {refused.why}"


class WhenChecked:
    """Appends the batches that wait for a check or a verification, and answers the request.

    They are copies, and count as memory of requests until the last one is appended.
    """

    def __init__(
        self,
        answer: list[bytes],
        waiting: list[PendingPartition],
        refused: Refused | None,
        call: Call,
        timeout_ms: int,
        context: BrokerContext,
        *,
        in_transaction: bool = False,
    ) -> None:
        """Complete the answer: `waiting` and `refused` belong to partitions that needed no check in another thread.

        `in_transaction`: the request has a transactional id.
        """
        self._in_transaction = in_transaction
        self._answer, self._waiting, self._refused = answer, waiting, refused
        self._timeout_ms, self._context = timeout_ms, context
        # If the client disconnects, its records are still appended, as if it had left a moment later.
        self.call = call.later()

    def start_checks(self, unchecked: Sequence[Unchecked]) -> Steps[None]:
        """Start the checks of these batches."""
        return check_in_thread(unchecked, self._context, self.call, self.append, self.finish)

    def append(self, item: Unchecked, fault: KafkaError | None) -> None:
        """Append a checked batch. `fault` is the error of its records, or None if they may be appended."""
        if fault is not None:
            self.refuse(item, fault)
            return
        version, acks, answer = self.call.version, self.call.acks, self._answer
        try:
            leader = self._context.led(item.topic, item.partition)
            if leader.topic_id != item.topic_id:
                code = ErrorCode.UNKNOWN_TOPIC_ID if version >= BY_ID_SINCE else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                raise KafkaError(code, f"topic {item.topic} was created again while its records were checked")
            records = memoryview(item.records)
            done = append(self.call, leader, records, self._in_transaction, item.guard)
            if safe_below(leader, acks) <= done.last_offset:
                self._waiting.append(PendingPartition(item.place, leader, leader.leader_epoch, item.partition, done))
            answer[item.place] = success(version, item.partition, done)
        except KafkaError as error:
            self.refuse(item, error)

    def refuse(self, item: Unchecked, error: KafkaError) -> None:
        """Put the error of a batch into the answer."""
        refused = self._refused = self._refused or Refused(self._answer, self.call, self._context.image)
        refused.add(item.place, item.topic, item.partition, error)
        self._answer[-1] = refused.tail()

    def finish(self) -> None:
        """Answer the request, once no batch waits for a check any more."""
        acks, answer, refused = self.call.acks, self._answer, self._refused
        self.call.connection.release_frame()
        if acks == 0 and refused is not None:
            self.call.refuse(*_refused_without_reply(refused))
        elif acks == 0:
            self.call.complete(NO_REPLY)
        elif self._waiting and not self.call.done:
            longest_s = longest_wait_s(acks, self._timeout_ms)
            ProduceWait(answer, self._waiting, self.call, self._context, longest_s, refused).wait()
        else:
            self.call.complete(self.call.packed(b"".join(answer)))


class OpenedTransaction(Protocol):
    """The transaction of a request: it has to be verified before its first batch in a partition is appended."""

    def first_batch(self, place: int, topic: str | UUID, index: int, records: memoryview | None) -> Unchecked | None:
        """Return a copy of the batch with its guard if it would open the transaction in the partition, otherwise None.

        Raises KafkaError. The request's frame is valid only for this call.
        """
        ...

    def verify(self, first: Sequence[Unchecked], unchecked: list[Unchecked], checked: WhenChecked) -> None:
        """Verify the transaction, append these first batches, and then start the checks of `unchecked`."""
        ...


def append_in_steps(
    request: ProduceRequest,
    refusal: KafkaError | None,
    call: Call,
    context: BrokerContext,
    opened: OpenedTransaction | None = None,
    admits: Callable[[memoryview], bool] | None = None,
) -> Steps[Reply | Call]:
    """Append the batches of a request, and answer it. `refusal` is the error of all partitions.

    `admits` chooses the requests that the connection handles while appended batches wait for replicas. It handles none
    before these batches are appended. They are appended even if the client disconnects. Topics that are named by their
    ids are looked up in each step, because they may be deleted between two steps.
    """
    transactional_id, acks, timeout_ms, appends, answer = request
    version, access, in_transaction = call.version, call.access, transactional_id is not None
    refused: Refused | None = None
    waiting: list[PendingPartition] = []
    unchecked: list[Unchecked] = []
    first: list[Unchecked] = []
    copied_bytes = 0
    appends.reverse()
    while appends:
        place, named, index, records = appends.pop()
        topic = name_now(named, context)
        try:
            if refusal is not None:
                raise KafkaError(refusal.code, refusal.message or "")
            if access is not None and isinstance(topic, str) and not access.topic(topic):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            opening = None if opened is None else opened.first_batch(place, topic, index, records)
            if opening is not None:
                first.append(opening)
                copied_bytes += len(opening.records)
                yield
                continue
            done = asked_append(place, topic, index, records, call, context, in_transaction)
            if isinstance(done, Unchecked):
                unchecked.append(done)
                copied_bytes += len(done.records)
                yield
                continue
            leader, result = done
            if safe_below(leader, acks) <= result.last_offset:
                waiting.append(PendingPartition(place, leader, leader.leader_epoch, index, result))
            answer[place] = success(version, index, result)
        except KafkaError as error:
            refused = refused or Refused(answer, call, context.image)
            refused.add(place, topic, index, error)
        yield
    answer.append(tail(call.throttle_ms, call.flexible) if refused is None else refused.tail())
    call.connection.release_frame(copied_bytes)
    if first or unchecked:
        checked = WhenChecked(answer, waiting, refused, call, timeout_ms, context, in_transaction=in_transaction)
        if opened is not None and first:
            opened.verify(first, unchecked, checked)
        else:
            yield from checked.start_checks(unchecked)
        return checked.call
    if acks == 0:
        return no_reply(refused)
    if waiting and not call.done:
        later = call.later()
        later.admits = admits
        return ProduceWait(answer, waiting, later, context, longest_wait_s(acks, timeout_ms), refused).wait()
    return (yield from joined(answer, call))
