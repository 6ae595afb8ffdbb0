"""A producer with acks=all and a consumer that run through a scenario, and the checks of them afterwards."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.nodes.site.shop import NodeShop
from e2e.world.shop import BROKERS
from tests.support.processes.clients.acknowledged import AcknowledgedWorkload, create_topic

PARTITIONS = 6
PAUSE_S = 0.01
"""Pause between two records: these tests are about changes of a cluster, not about its throughput."""


@contextmanager
def traffic(shop: NodeShop, replicas: int = BROKERS) -> Iterator[AcknowledgedWorkload]:
    """Run traffic inside the block, and check it afterwards: no acknowledged record is lost, moved or duplicated.

    Brokers may have other addresses then.
    """
    topic = f"traffic-{uuid.uuid4().hex[:8]}"
    create_topic(shop.bootstrap(), topic, PARTITIONS, replicas, min_insync_replicas=str(min(2, replicas)))
    with AcknowledgedWorkload(shop.bootstrap(), topic, PARTITIONS, pause_s=PAUSE_S) as load:
        yield load
    load.check(shop.bootstrap())
