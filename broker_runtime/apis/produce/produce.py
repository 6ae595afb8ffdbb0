"""Produce (0), versions 3 to 13: the product's hot path.

The dispatcher has parsed the header. The fixed fields are read from the frame with struct. The record bytes go from the
frame to the log unchanged (one checksum, one append), and the reply is joined from a few packed pieces.

- acks 0 gets no reply. An error ends the connection, because the client cannot notice anything else (as in Kafka).
- acks -1 (all) requires min.insync.replicas before the append. It is answered when the high watermark has passed its
  records: at once if the leader is the only in-sync replica, otherwise by `ProduceWait`.
- If flush.messages requires a sync before records count, acks 1 waits for the sync too, without a timeout. The event
  loop does not block.
- Versions 0 to 2 are advertised for old librdkafka (KIP-896) but refused.
- If the records of a compressed or long batch must be checked, another thread does this before the append.
- A transactional id is refused (`refused_transactions`).
- A client over its quota is throttled; its records are appended all the same, as in Kafka.
"""

from collections.abc import Sequence
from uuid import UUID

from broker_runtime.apis.produce.produce_answer import Refused, success, tail
from broker_runtime.apis.produce.produce_request import read_in_steps, read_request
from broker_runtime.apis.produce.produce_wait import PendingPartition, ProduceWait, safe_below
from broker_runtime.apis.produce.record_checks import Unchecked, check_in_thread
from broker_runtime.apis.request import refused_transactions
from broker_runtime.apis.request.access import denied
from broker_runtime.apis.request.call import NO_ACKS, Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.apis.request.dispatching.answering import joined
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.metadata.topic_names import INTERNAL_TOPICS
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.slicing.steps import Steps, at_once
from broker_runtime.storage.log.log import AppendResult
from broker_runtime.storage.records.record_check import check_records, is_quick
from broker_runtime.storage.records.validation import check_batch, check_known_codec
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.reply import NO_REPLY, Reply
from broker_runtime.wire.versions import PRODUCE
from kafka_bytes.batches import TIMESTAMPS, TIMESTAMPS_AT

_API_KEY = PRODUCE.to_bytes(2, "big")
_ZSTD_SINCE = 7
_BY_ID_SINCE = 13
_ADMIN_CLIENT = "__admin_client"
"""A client with this client id may write to internal topics, as in Apache Kafka."""


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> Reply | Call | Steps[Reply | Call]:
    version = call.version
    by_id = context.image.topics if version >= _BY_ID_SINCE else None
    request = read_request(reader, by_id)
    if request is None:
        return _in_steps(reader.counting(PRODUCE).kept(call.connection.keep_frame), call, context)
    transactional_id, acks, timeout_ms, appends, answer = request
    call.acks = acks if -1 <= acks <= 1 else NO_ACKS
    if call.completion.quotas is not None:
        call.completion.quotas.produced(call)
    refused: Refused | None = None
    refusal = _refusal(transactional_id, call, acks, context)
    access = call.access
    if refusal is not None and appends:
        refused = Refused(answer, call, context.image)
        refused.add_all(appends, refusal)
        appends = []
    waiting: list[PendingPartition] = []
    unchecked: list[Unchecked] = []
    for place, topic, index, records in appends:
        try:
            if access is not None and isinstance(topic, str) and not access.topic(topic):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            done = _asked_append(place, topic, index, records, call, context)
            if isinstance(done, Unchecked):
                unchecked.append(done)
                continue
            leader, result = done
            if safe_below(leader, acks) <= result.last_offset:
                waiting.append(PendingPartition(place, leader, leader.leader_epoch, index, result))
            answer[place] = success(version, index, result)
        except KafkaError as error:
            refused = refused or Refused(answer, call, context.image)
            refused.add(place, topic, index, error)
    answer.append(tail(call.throttle_ms, call.flexible) if refused is None else refused.tail())
    if unchecked:
        checked = _WhenChecked(answer, waiting, refused, call, timeout_ms, context)
        at_once(checked.start_checks(unchecked))
        return checked.call
    if acks == 0:
        return _no_reply(refused)
    if waiting:
        later = call.later()
        later.admits = _is_produce
        return ProduceWait(answer, waiting, later, context, _longest_wait_s(acks, timeout_ms), refused).wait()
    return call.packed(b"".join(answer))


def _in_steps(reader: RequestReader, call: Call, context: BrokerContext) -> Steps[Reply | Call]:
    """Handle a Produce request with many partitions in steps.

    The connection handles no other request before these records are appended. They are appended even if the client
    disconnects.
    """
    version = call.version
    transactional_id, acks, timeout_ms, appends, answer = yield from read_in_steps(reader, version >= _BY_ID_SINCE)
    call.acks = acks if -1 <= acks <= 1 else NO_ACKS
    if call.completion.quotas is not None:
        call.completion.quotas.produced(call)
    refused: Refused | None = None
    refusal = _refusal(transactional_id, call, acks, context)
    access = call.access
    waiting: list[PendingPartition] = []
    unchecked: list[Unchecked] = []
    appends.reverse()
    while appends:
        place, named, index, records = appends.pop()
        topic = _name_now(named, context)
        try:
            if refusal is not None:
                refused = refused or Refused(answer, call, context.image)
                refused.add(place, topic, index, refusal)
                yield
                continue
            if access is not None and isinstance(topic, str) and not access.topic(topic):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            done = _asked_append(place, topic, index, records, call, context)
            if isinstance(done, Unchecked):
                unchecked.append(done)
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
    call.connection.release_frame()
    if unchecked:
        checked = _WhenChecked(answer, waiting, refused, call, timeout_ms, context)
        yield from checked.start_checks(unchecked)
        return checked.call
    if acks == 0:
        return _no_reply(refused)
    if waiting and not call.done:
        later = call.later()
        return ProduceWait(answer, waiting, later, context, _longest_wait_s(acks, timeout_ms), refused).wait()
    return (yield from joined(answer, call))


def _name_now(topic: str | UUID, context: BrokerContext) -> str | UUID:
    """Return the current name of a topic that the request names by its id, or the id if the topic does not exist.

    It is looked up in each step, because the name may belong to another topic since the request was read.
    """
    known = context.image.topics.by_id(topic) if isinstance(topic, UUID) else None
    return topic if known is None else known.name


def _asked_append(
    place: int, topic: str | UUID, index: int, records: memoryview | None, call: Call, context: BrokerContext
) -> Unchecked | tuple[LeaderReplica, AppendResult]:
    """Append the records of one partition, unless another thread must check them first. Raises KafkaError."""
    if not isinstance(topic, str):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic id {topic} does not exist")
    leader = context.led(topic, index)
    if call.version < _ZSTD_SINCE and records is not None:
        check_known_codec(records)
    if leader.log.config.checks_records and _takes_long(records, leader, context):
        return Unchecked(place, topic, leader.topic_id, index, bytes(records or b""), leader.log.config)
    return leader, _append(call, leader, records)


def _is_produce(frame: memoryview) -> bool:
    """Whether the frame is a Produce request, which the connection handles while an earlier one waits for replicas.

    Its batches are appended after those of the earlier request. Other requests wait, so that they see the records that
    the client has produced before.
    """
    return frame[:2] == _API_KEY


class _WhenChecked:
    """Appends the batches that another thread has checked, and answers the request."""

    def __init__(
        self,
        answer: list[bytes],
        waiting: list[PendingPartition],
        refused: Refused | None,
        call: Call,
        timeout_ms: int,
        context: BrokerContext,
    ) -> None:
        """Complete the answer: `waiting` and `refused` belong to partitions that needed no check in another thread."""
        self._answer, self._waiting, self._refused = answer, waiting, refused
        self._timeout_ms, self._context = timeout_ms, context
        # If the client disconnects, its records are still appended, as if it had left a moment later.
        self.call = call.later()

    def start_checks(self, unchecked: Sequence[Unchecked]) -> Steps[None]:
        """Start the checks of these batches."""
        return check_in_thread(unchecked, self._context, self.call, self._append, self._finish)

    def _append(self, item: Unchecked, fault: KafkaError | None) -> None:
        """Append a checked batch. `fault` is the error of its records, or None if they may be appended."""
        if fault is not None:
            self._refuse(item, fault)
            return
        version, acks, answer = self.call.version, self.call.acks, self._answer
        try:
            leader = self._context.led(item.topic, item.partition)
            if leader.topic_id != item.topic_id:
                code = ErrorCode.UNKNOWN_TOPIC_ID if version >= _BY_ID_SINCE else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                raise KafkaError(code, f"topic {item.topic} was created again while its records were checked")
            done = _append(self.call, leader, memoryview(item.records))
            if safe_below(leader, acks) <= done.last_offset:
                self._waiting.append(PendingPartition(item.place, leader, leader.leader_epoch, item.partition, done))
            answer[item.place] = success(version, item.partition, done)
        except KafkaError as error:
            self._refuse(item, error)

    def _refuse(self, item: Unchecked, error: KafkaError) -> None:
        refused = self._refused = self._refused or Refused(self._answer, self.call, self._context.image)
        refused.add(item.place, item.topic, item.partition, error)
        self._answer[-1] = refused.tail()

    def _finish(self) -> None:
        acks, answer, refused = self.call.acks, self._answer, self._refused
        if acks == 0 and refused is not None:
            self.call.refuse(*_refused_without_reply(refused))
        elif acks == 0:
            self.call.complete(NO_REPLY)
        elif self._waiting and not self.call.done:
            longest_s = _longest_wait_s(acks, self._timeout_ms)
            ProduceWait(answer, self._waiting, self.call, self._context, longest_s, refused).wait()
        else:
            self.call.complete(self.call.packed(b"".join(answer)))


def _longest_wait_s(acks: int, timeout_ms: int) -> float | None:
    """Return the maximum wait in seconds. None with acks=1, which waits only for the disk."""
    return None if acks == 1 else max(timeout_ms, 0) / 1000


def _takes_long(records: memoryview | None, leader: LeaderReplica, context: BrokerContext) -> bool:
    """Whether another thread must check these records. Otherwise this checks them, and raises KafkaError to refuse."""
    if not records:
        return False
    config = leader.log.config
    check_batch(records, config, context.clock.wall_ms())
    if not is_quick(records):
        return True
    check_records(records, config, len(records), f"{leader.topic}-{leader.index}")
    return False


def _refusal(transactional_id: str | None, call: Call, acks: int, context: BrokerContext) -> KafkaError | None:
    """Return the error of every partition of the request, or None."""
    if transactional_id is not None:
        access = call.access
        if access is not None and not access.transactional_id(transactional_id):
            return denied(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        context.refused_transactions.note(call, transactional_id)
        return KafkaError(refused_transactions.CODE, refused_transactions.WHY)
    if acks not in (-1, 0, 1):
        return KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, "acks must be -1, 0 or 1")
    return None


def _no_reply(refused: Refused | None) -> Reply:
    """Return the empty reply of acks=0.

    Raises ProtocolError if a partition was refused, because the client gets no answer.
    """
    if refused is not None:
        raise ProtocolError(*_refused_without_reply(refused))
    return NO_REPLY


def _refused_without_reply(refused: Refused) -> tuple[str, str]:
    """Return the kind under which the connection's end is counted, and its reason."""
    return "acks-0-failed", f"a produce request with acks=0 failed: {refused.why}"


def _append(call: Call, leader: LeaderReplica, records: memoryview | None) -> AppendResult:
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
    done = leader.log.append(records, leader_epoch=leader.leader_epoch)
    if call.partitions is not None:
        base, last = done.base_offset, done.last_offset
        first_ms, max_ms = TIMESTAMPS.unpack_from(records, TIMESTAMPS_AT)
        call.partitions.append(
            (leader.topic, leader.index, len(records), last - base + 1, base, last, first_ms, max_ms, 0)
        )
    return done


API = ApiSpec(
    key=PRODUCE,
    name="Produce",
    versions=(3, 13),
    handle=handle,
    reads="frame",
    counts_itself=True,
    outlives_client=True,
)
