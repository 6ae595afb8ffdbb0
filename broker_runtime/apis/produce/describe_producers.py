"""DescribeProducers (61), version 0 (KIP-664): the producers known to the leader of a partition.

These are idempotent and transactional producers; the start of an open transaction is shown, too. Packed by hand: an
answer may have two million of them, whose fields would take ten times as much memory as their bytes.
"""

from struct import Struct

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.apis.request.dispatching.answering import joined
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps, distinct, listed, pages
from broker_runtime.storage.records.producers import Producer
from broker_runtime.wire.encoding.writer import array_length, nullable_string, string
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.requests import DescribeProducersRequest
from broker_runtime.wire.versions import DESCRIBE_PRODUCERS

_THROTTLE_MS, _PARTITION = Struct(">i"), Struct(">ih")
_PRODUCER = Struct(">qiiqiqx")
"""Producer id, epoch, last sequence number, last timestamp, epoch of the coordinator, start of the open transaction."""
_NO_TAGS = b"\x00"
_PRODUCERS_OF_A_STEP = 32


def handle(request: DescribeProducersRequest, call: Call, context: BrokerContext) -> Steps[Reply]:
    parts = [_THROTTLE_MS.pack(call.throttle_ms), array_length(len(request.topics), True)]
    size = 0
    for topic in request.topics:
        # Kafka's clients name a partition once; one that is named again would be described again.
        indexes = yield from distinct(topic.partition_indexes)
        parts.append(string(topic.name, True) + array_length(len(indexes), True))
        for index in indexes:
            described = yield from _described(topic.name, index, call, context)
            size += sum(map(len, described))
            call.completion.limits.check_response(size)
            parts += described
        parts.append(_NO_TAGS)
        yield
    parts.append(_NO_TAGS)
    return (yield from joined(parts, call))


def _described(topic: str, index: int, call: Call, context: BrokerContext) -> Steps[list[bytes]]:
    """Return the bytes of a partition and its producers."""
    try:
        access = call.access
        if access is not None:
            access.require_topic(topic)
        log, _ = context.led_log(topic, index)
    except KafkaError as error:
        call.error = call.error or error.code
        head = _PARTITION.pack(index, error.code) + nullable_string(error.message, True)
        yield
        return [head + array_length(0, True) + _NO_TAGS]
    known = yield from listed(log.producers)
    parts = [_PARTITION.pack(index, ErrorCode.NONE) + nullable_string(None, True) + array_length(len(known), True)]
    for some in pages(known, _PRODUCERS_OF_A_STEP):
        parts.append(b"".join(map(_producer, some)))
        yield
    parts.append(_NO_TAGS)
    return parts


def _producer(known: tuple[int, Producer]) -> bytes:
    producer_id, state = known
    return _PRODUCER.pack(
        producer_id, state.epoch, state.last_sequence, state.timestamp, state.coordinator_epoch, state.first_offset
    )


API = ApiSpec(key=DESCRIBE_PRODUCERS, name="DescribeProducers", versions=(0, 0), handle=handle)
