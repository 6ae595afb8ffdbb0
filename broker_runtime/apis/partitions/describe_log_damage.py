"""DescribeLogDamage (30007), version 0: the offsets of its replicas that this broker cannot read (decision 46).

A replica that is not served at all is listed without ranges, and `repair` contains the reason.
"""

from collections.abc import Sequence

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.storage.segment.damaged_ranges import DamagedRange
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import DescribeLogDamageRequest
from kafka_bytes.own_keys import DESCRIBE_LOG_DAMAGE

RANGES_MAX = 1_000
"""Maximum number of damaged ranges in one answer, which is encoded in one iteration of the event loop."""


def handle(request: DescribeLogDamageRequest, call: Call, context: BrokerContext) -> Fields:
    del request, call
    partitions: list[Fields] = []
    total = 0
    for log in context.logs.damage.logs():
        ranges, shown = log.damage, max(RANGES_MAX - total, 0)
        total += len(ranges)
        if shown:
            repair = context.repair_state(log.topic, log.partition)
            partitions.append(_partition(log.topic, log.partition, repair, ranges[:shown], context))
    for (topic, index), why in list(context.offline_replicas.items())[: max(RANGES_MAX - total, 0)]:
        partitions.append(_partition(topic, index, f"it is not served: {why}", (), context))
    return {"broker_id": context.settings.node_id, "ranges_total": total, "partitions": partitions}


def _partition(name: str, index: int, repair: str, ranges: Sequence[DamagedRange], context: BrokerContext) -> Fields:
    topic = context.image.topics.get(name)
    part = None if topic is None else topic.partitions.get(index)
    return {
        "topic": name,
        "partition": index,
        "leader_id": -1 if part is None else part.leader,
        "repair": repair,
        "ranges": [
            {"first_offset": each.first_offset, "next_offset": each.next_offset, "reason": each.reason}
            for each in ranges
        ],
    }


API = ApiSpec(key=DESCRIBE_LOG_DAMAGE, name="DescribeLogDamage", versions=(0, 0), handle=handle)
