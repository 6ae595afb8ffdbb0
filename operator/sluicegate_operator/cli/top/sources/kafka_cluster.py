"""Brokers and limits of a cluster as Kafka's admin protocol reports them, also those of Apache Kafka.

The protocol has no rates of connections: such figures stay unknown.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping

from sluicegate_operator.cli.asking.quota_rows import QuotaRow
from sluicegate_operator.cli.fleets.fleet_view import BrokerRow, ShownCluster, ShownNode
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.errors import KafkaAdminError, show
from sluicegate_operator.kafka_admin.views import BrokerView, Configs, TopicView
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.planning.limits.limits import COUNT, RATE

ASKED_AT_A_TIME = 16
UNLIMITED = 2**31 - 1
"""Kafka's default of both limits: there is no limit."""
SERVING, FENCED = "Serving", "Fenced"


async def cluster_by_kafka(admin: AdminClient, name: str, topics: Iterable[TopicView]) -> ShownCluster:
    """Return brokers and limits of a cluster. Raises KafkaAdminError."""
    brokers = (await admin.describe_cluster_with_fenced()).brokers
    slots = asyncio.Semaphore(ASKED_AT_A_TIME)

    async def limits_of(broker: BrokerView) -> tuple[QuotaRow | None, str | None]:
        async with slots:
            try:
                handle = admin.broker(broker.host, broker.port)
                found = await handle.describe_broker_configs(broker.id, (RATE, COUNT))
            except KafkaAdminError as error:
                return None, str(error)
        return _broker_limits(broker.id, found), None

    answers = await asyncio.gather(*(limits_of(broker) for broker in brokers if not broker.fenced))
    problems = dict(zip((one.id for one in brokers if not one.fenced), (why for _, why in answers), strict=True))
    rates = await admin.describe_ip_quotas()
    return ShownCluster(
        name=name,
        nodes=tuple(_node(broker, problems.get(broker.id)) for broker in brokers),
        brokers=broker_rows_by_kafka(brokers, topics),
        unseen="",
        progress={},
        quotas=(*(row for row, _ in answers if row is not None), *_address_limits(rates, brokers)),
        resources=(),
    )


def _node(broker: BrokerView, problem: str | None) -> ShownNode:
    return ShownNode(broker.id, Role.BROKER, None, 0, {}, "", "it is fenced" if broker.fenced else problem)


def broker_rows_by_kafka(brokers: Iterable[BrokerView], topics: Iterable[TopicView]) -> tuple[BrokerRow, ...]:
    """Return the rows of brokers, with replicas, leaders and replicas out of sync counted from all topics."""
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    out_of_sync: Counter[int] = Counter()
    for topic in topics:
        for one in topic.partitions:
            replicas.update(one.replicas)
            out_of_sync.update(set(one.replicas) - set(one.isr))
            if one.leader is not None:
                leaders[one.leader] += 1
    return tuple(
        BrokerRow(
            id=broker.id,
            state=FENCED if broker.fenced else SERVING,
            epoch=0,
            heartbeat_age_s=None,
            leaders=leaders[broker.id],
            replicas=replicas[broker.id],
            out_of_sync=out_of_sync[broker.id],
            metadata_lag=None,
            pid=None,
            address=show((broker.host, broker.port)),
        )
        for broker in brokers
    )


def _broker_limits(broker_id: int, configs: Configs) -> QuotaRow:
    rate, count = (_limit(configs, key) for key in (RATE, COUNT))
    return QuotaRow(broker_id, "broker", rate, count)


def _limit(configs: Configs, key: str) -> int | None:
    entry = configs.get(key)
    value = int(entry.value) if entry is not None and entry.value else UNLIMITED
    return None if value >= UNLIMITED else value


def _address_limits(rates: Mapping[str | None, float], brokers: Iterable[BrokerView]) -> list[QuotaRow]:
    """Return the limits on addresses, as those of the first broker: all brokers have the same."""
    first = min((broker.id for broker in brokers), default=0)
    named = sorted(rates.items(), key=lambda item: item[0] or "")
    return [QuotaRow(first, "defaultIp" if ip is None else f"ip {ip}", rate) for ip, rate in named]
