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
- A request with a transactional id is handled by `transactional`, which is imported with the first such request.
- A client over its quota is throttled; its records are appended all the same, as in Kafka.
"""

from collections.abc import Callable
from importlib import import_module

from broker_runtime.apis.produce.appending import (
    BY_ID_SINCE,
    WhenChecked,
    append_in_steps,
    asked_append,
    longest_wait_s,
    no_reply,
)
from broker_runtime.apis.produce.produce_answer import Refused, success, tail
from broker_runtime.apis.produce.produce_request import ProduceRequest, read_in_steps, read_request
from broker_runtime.apis.produce.produce_wait import PendingPartition, ProduceWait, safe_below
from broker_runtime.apis.produce.record_checks import Unchecked
from broker_runtime.apis.request.access import Access, denied
from broker_runtime.apis.request.call import NO_ACKS, Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps, at_once
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import PRODUCE

_TRANSACTIONAL = "broker_runtime.apis.produce.transactional"
_API_KEY = PRODUCE.to_bytes(2, "big")


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> Reply | Call | Steps[Reply | Call]:
    version = call.version
    by_id = context.image.topics if version >= BY_ID_SINCE else None
    request = read_request(reader, by_id)
    if request is None:
        return _in_steps(reader.counting(PRODUCE).kept(call.connection.keep_frame), call, context)
    transactional_id, acks, timeout_ms, appends, answer = request
    call.acks = acks if -1 <= acks <= 1 else NO_ACKS
    if call.completion.quotas is not None:
        call.completion.quotas.produced(call)
    refused: Refused | None = None
    access = call.access
    refusal = _refusal(transactional_id, access, acks)
    if transactional_id is not None or refusal is not None:
        return _unusual(request, refusal, call, context)
    waiting: list[PendingPartition] = []
    unchecked: list[Unchecked] = []
    for place, topic, index, records in appends:
        try:
            if access is not None and isinstance(topic, str) and not access.topic(topic):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            done = asked_append(place, topic, index, records, call, context)
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
        call.connection.release_frame(sum(len(item.records) for item in unchecked))
        checked = WhenChecked(answer, waiting, refused, call, timeout_ms, context)
        at_once(checked.start_checks(unchecked))
        return checked.call
    if acks == 0:
        return no_reply(refused)
    if waiting:
        later = call.later()
        later.admits = _is_produce
        return ProduceWait(answer, waiting, later, context, longest_wait_s(acks, timeout_ms), refused).wait()
    return call.packed(b"".join(answer))


def _in_steps(reader: RequestReader, call: Call, context: BrokerContext) -> Steps[Reply | Call]:
    """Handle a Produce request with many partitions in steps.

    The connection handles no other request before these records are appended. They are appended even if the client
    disconnects.
    """
    request = yield from read_in_steps(reader, call.version >= BY_ID_SINCE)
    transactional_id, acks, *_ = request
    call.acks = acks if -1 <= acks <= 1 else NO_ACKS
    if call.completion.quotas is not None:
        call.completion.quotas.produced(call)
    refusal = _refusal(transactional_id, call.access, acks)
    if transactional_id is not None:
        return (yield from _in_transaction()(request, refusal, call, context))
    return (yield from append_in_steps(request, refusal, call, context))


def _is_produce(frame: memoryview) -> bool:
    """Whether the frame is a Produce request, which the connection handles while an earlier one waits for replicas.

    Its batches are appended after those of the earlier request. Other requests wait, so that they see the records that
    the client has produced before.
    """
    return frame[:2] == _API_KEY


def _unusual(request: ProduceRequest, refusal: KafkaError | None, call: Call, context: BrokerContext) -> Reply | Call:
    """Answer a request with a transactional id, or with an error that is the same for all of its partitions."""
    transactional_id, _, _, appends, answer = request
    if transactional_id is not None or refusal is None:
        return at_once(_in_transaction()(request, refusal, call, context, _is_produce))
    refused = Refused(answer, call, context.image)
    refused.add_all(appends, refusal)
    answer.append(refused.tail())
    return call.packed(b"".join(answer))


def _in_transaction() -> "Callable[..., Steps[Reply | Call]]":
    """Return `transactional.produce_in_transaction`; the first call imports its module (decision 45)."""
    found: Callable[..., Steps[Reply | Call]] = import_module(_TRANSACTIONAL).produce_in_transaction
    return found


def _refusal(transactional_id: str | None, access: Access | None, acks: int) -> KafkaError | None:
    """Return the error of every partition of the request, or None."""
    if transactional_id is not None and access is not None and not access.transactional_id(transactional_id):
        return denied(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if acks not in (-1, 0, 1):
        return KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, "acks must be -1, 0 or 1")
    return None


API = ApiSpec(
    key=PRODUCE,
    name="Produce",
    versions=(3, 13),
    handle=handle,
    reads="frame",
    counts_itself=True,
    outlives_client=True,
)
