"""Time from a changed manifest to the limit being in force on every broker: parse, plan, set, read back from each one.

This is the operator's own path (quotas.plan and quotas.brokers) without the API server's watch, with real broker
processes.
"""

import asyncio
import time
from statistics import quantiles
from typing import Any

from sluicegate_operator.api.manifests import parse_resource
from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.api.models.connection_quota import ConnectionQuota
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.asking import BrokerPool
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.quotas.brokers import WantedLimits, enforce
from sluicegate_operator.quotas.plan import plan_quotas
from tests.support.processes.broker_process import BrokerGroup

VERSION = "sluicegate.dev/v1alpha1"
LISTENER = "EXTERNAL"


def measure_apply_to_enforced(changes: int, brokers: int) -> dict[str, float]:
    with BrokerGroup(brokers, listeners=[LISTENER]) as group:
        addresses = tuple(BrokerAddress(node.node_id, node.host, node.port()) for node in group.brokers)
        times_ms = sorted(asyncio.run(_change(addresses, changes)))
    cuts = quantiles(times_ms, n=100, method="inclusive")
    return {
        "changes": changes,
        "brokers": brokers,
        "p50_ms": cuts[49],
        "p99_ms": cuts[98],
        "max_ms": times_ms[-1],
    }


async def _change(addresses: tuple[BrokerAddress, ...], changes: int) -> list[float]:
    cluster = parse_resource(_manifest("BrokerCluster", {"brokers": {"replicas": 3, "storage": {"size": "1Gi"}}}))
    listener = parse_resource(
        _manifest("BrokerListener", {"clusterRef": {"name": "shop"}, "name": LISTENER, "port": 9094})
    )
    assert isinstance(cluster, BrokerCluster)
    assert isinstance(listener, BrokerListener)
    times_ms = []
    async with AdminClient([(a.host, a.port) for a in addresses]) as admin:
        pool = BrokerPool(admin, addresses)
        for number in range(changes + 1):
            began = time.perf_counter()
            quota = parse_resource(_quota(10 + number))
            assert isinstance(quota, ConnectionQuota)
            plan = plan_quotas(cluster, [listener], [quota])
            result = await enforce(pool, WantedLimits(plan.desired, asyncio.get_running_loop().time()))
            if not result.is_complete:
                raise RuntimeError(f"a change was not enforced everywhere: {result.lagging} {result.failures}")
            times_ms.append((time.perf_counter() - began) * 1000)
    # The first change opens the connections; an operator already has them open.
    return times_ms[1:]


def _quota(rate: int) -> dict[str, Any]:
    spec = {"clusterRef": {"name": "shop"}, "target": {"listener": LISTENER}, "maxConnectionCreationRate": rate}
    return _manifest("ConnectionQuota", spec)


def _manifest(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": VERSION, "kind": kind, "metadata": {"name": "shop"}, "spec": spec}
