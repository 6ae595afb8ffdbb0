"""Asks the brokers of one cluster by Kafka's admin protocol: partitions out of sync, and groups with their lag.

These questions read all topics and groups. So they are asked every few seconds, apart from the looks, and a look has
the last answers. Groups are asked for after the partitions, which are known even while a coordinator is away.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from sluicegate_operator.cli.top.model.look import KafkaAnswers, OutOfSync
from sluicegate_operator.cli.top.sources.kafka_cluster import cluster_by_kafka
from sluicegate_operator.cli.top.sources.kafka_groups import ask_groups
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.errors import Address, KafkaAdminError
from sluicegate_operator.kafka_admin.security.client_security import ClientSecurity, SecurityError
from sluicegate_operator.kafka_admin.views import TopicView

CLIENT_ID = "sluicegate-top"
PERIOD_S = 5.0
DEADLINE_S = 10.0
"""Seconds for topics, brokers and limits. Groups have a deadline of their own."""
PARTITIONS_MAX = 2_000

Where = tuple[Sequence[Address], ClientSecurity]
OpenAdmin = Callable[[Sequence[Address], ClientSecurity], AdminClient]


def open_admin(addresses: Sequence[Address], security: ClientSecurity) -> AdminClient:
    """Return a client of the cluster. Raises SecurityError."""
    return AdminClient(addresses, client_id=CLIENT_ID, security=security)


@dataclass(frozen=True, slots=True)
class KafkaPlace:
    """A cluster that answers Kafka's protocol. `find` returns its brokers' addresses; it raises ValueError.

    `only_kafka`: whether nothing else answers, so that brokers and limits are asked for, too.
    """

    cluster: str
    find: Callable[[], Where]
    only_kafka: bool = False


class KafkaWatch:
    """The last answers of one cluster, and the task that asks for newer ones. Use it as a context manager."""

    def __init__(
        self,
        place: KafkaPlace,
        now_s: Callable[[], float],
        period_s: float = PERIOD_S,
        admin: OpenAdmin = open_admin,
    ) -> None:
        self.first = asyncio.Event()
        """Set after the first question, with or without an answer."""
        self.answers: KafkaAnswers | None = None
        self.note = ""
        """A sentence about the reason why the last question has no answer; else empty."""
        self._place = place
        self._now_s = now_s
        self._period_s = period_s
        self._admin = admin
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._keep_asking())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _keep_asking(self) -> None:
        while True:
            await self.ask_once()
            await asyncio.sleep(self._period_s)

    async def ask_once(self) -> None:
        """Ask for groups and partitions. Without an answer in time, the former answers stay, with a note."""
        try:
            addresses, security = self._place.find()
            async with self._admin(addresses, security) as admin:
                self.answers = await ask_kafka(admin, self._place, self._now_s())
            self.note = ""
        except (KafkaAdminError, SecurityError, ValueError, OSError) as error:
            why = str(error) or f"no answer within {DEADLINE_S:g} s"
            self.note = f"groups and partitions of {self._place.cluster} are not known: {why}"
        finally:
            self.first.set()


async def ask_kafka(admin: AdminClient, place: KafkaPlace, at_s: float) -> KafkaAnswers:
    """Return the partitions out of sync, and the groups that are known.

    Raises KafkaAdminError, and TimeoutError without an answer about topics in time.
    """
    async with asyncio.timeout(DEADLINE_S):
        topics = await admin.describe_topics()
        seen = await cluster_by_kafka(admin, place.cluster, topics.values()) if place.only_kafka else None
    found = await ask_groups(admin, place.cluster)
    return KafkaAnswers(
        cluster=place.cluster,
        at_s=at_s,
        partitions=out_of_sync(place.cluster, topics.values()),
        groups=found.groups,
        left_out=found.left_out,
        note=found.note,
        cluster_seen=seen,
    )


def out_of_sync(cluster: str, topics: Iterable[TopicView]) -> tuple[OutOfSync, ...]:
    """Return the partitions without a leader, or with a replica that is not in sync, up to a maximum."""
    found = [
        OutOfSync(cluster, topic.name, one.index, one.leader, one.replicas, one.isr)
        for topic in topics
        for one in topic.partitions
        if one.leader is None or not set(one.replicas) <= set(one.isr)
    ]
    return tuple(sorted(found)[:PARTITIONS_MAX])
