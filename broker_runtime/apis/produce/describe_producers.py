"""DescribeProducers (61), version 0 (KIP-664): the idempotent producers known to the leader of a partition."""

from typing import cast

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps, each, listed
from broker_runtime.storage.records.producers import StoredBatch
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import DescribeProducersRequest
from broker_runtime.wire.versions import DESCRIBE_PRODUCERS

_PRODUCER_BYTES = 35
"""Size of one producer in the response."""


def handle(request: DescribeProducersRequest, call: Call, context: BrokerContext) -> Steps[Fields]:
    topics, size = [], 0
    for topic in request.topics:
        partitions = []
        # Kafka's clients name a partition once; one that is named again would be described again.
        for index in dict.fromkeys(topic.partition_indexes):
            described = yield from _described(topic.name, index, call, context)
            size += len(cast("list[Fields]", described["active_producers"])) * _PRODUCER_BYTES
            call.completion.limits.check_response(size)
            partitions.append(described)
            yield
        topics.append({"name": topic.name, "partitions": partitions})
        yield
    return {"topics": topics}


def _described(topic: str, index: int, call: Call, context: BrokerContext) -> Steps[Fields]:
    answer: dict[str, object] = {
        "partition_index": index,
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "active_producers": [],
    }
    try:
        access = call.access
        if access is not None:
            access.require_topic(topic)
        log, _ = context.led_log(topic, index)
    except KafkaError as error:
        return answer | {"error_code": error.code, "error_message": error.message}
    newest = yield from listed(log.producers.newest_batches())
    return answer | {"active_producers": (yield from each(newest, _producer))}


def _producer(newest: tuple[int, int, StoredBatch]) -> Fields:
    producer_id, epoch, batch = newest
    return {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "last_sequence": batch.last_sequence,
        "last_timestamp": batch.timestamp,
        "coordinator_epoch": -1,
        "current_txn_start_offset": -1,
    }


API = ApiSpec(key=DESCRIBE_PRODUCERS, name="DescribeProducers", versions=(0, 0), handle=handle)
