"""DescribeLogDamage and AcceptLogLoss (docs/reference/durability.md): APIs of this project's brokers.

ApiVersions does not list them: a broker of an older release closes the connection, or answers with nothing.
"""

from kio.static.primitive import i32, i64

from kafka_bytes.messages.log_damage import (
    AcceptLogLossRequest,
    AcceptLogLossResponse,
    DescribeLogDamageRequest,
    DescribeLogDamageResponse,
)
from sluicegate_operator.kafka_admin.connecting.exchange import Exchange
from sluicegate_operator.kafka_admin.errors import check
from sluicegate_operator.kafka_admin.views import DamagedRange, DamagedReplica, LogDamage, node_or_none

SINCE_PROTOCOL = 5
"""Lowest protocol version of a broker that serves these APIs."""


def describe() -> Exchange[DescribeLogDamageResponse, LogDamage]:
    return Exchange(DescribeLogDamageRequest(), DescribeLogDamageResponse, _read, listed=False)


def _read(reply: DescribeLogDamageResponse) -> LogDamage:
    replicas = (
        DamagedReplica(
            one.topic,
            one.partition,
            node_or_none(one.leader_id),
            one.repair,
            tuple(DamagedRange(each.first_offset, each.next_offset - 1, each.reason) for each in one.ranges),
        )
        for one in reply.partitions
    )
    return LogDamage(reply.broker_id, reply.ranges_total, tuple(replicas))


def accept(topic: str, partition: int, first: int, last: int) -> Exchange[AcceptLogLossResponse, None]:
    """Return the request that accepts lost offsets, from `first` to `last`, both reported by `describe`."""
    request = AcceptLogLossRequest(
        topic=topic, partition=i32(partition), first_offset=i64(first), next_offset=i64(last + 1)
    )

    def read(reply: AcceptLogLossResponse) -> None:
        check(reply.error_code, reply.error_message, f"accepting a loss of {topic}-{partition}")

    return Exchange(request, AcceptLogLossResponse, read, repeatable=False, listed=False)
