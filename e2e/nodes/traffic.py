"""A producer with acks=all and a consumer that run through a scenario, and what is held against them afterwards."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.nodes.shop import NodeShop
from e2e.shop import BROKERS
from tests.support.acknowledged import AcknowledgedWorkload, create_topic

PARTITIONS = 6
PAUSE_S = 0.01
"""Between two records: what is done to a cluster is tested here, not how much it bears."""


@contextmanager
def traffic(shop: NodeShop, replicas: int = BROKERS) -> Iterator[AcknowledgedWorkload]:
    """Nothing acknowledged is lost, moved or there twice when the block ends; brokers may have other addresses then."""
    topic = f"traffic-{uuid.uuid4().hex[:8]}"
    create_topic(shop.bootstrap(), topic, PARTITIONS, replicas, min_insync_replicas=str(min(2, replicas)))
    with AcknowledgedWorkload(shop.bootstrap(), topic, PARTITIONS, pause_s=PAUSE_S) as load:
        yield load
    load.check(shop.bootstrap())
