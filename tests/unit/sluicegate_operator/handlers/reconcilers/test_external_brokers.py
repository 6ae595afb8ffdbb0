"""The validity of an external cluster's observation, its notifications, and the counts of replicas."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace

import pytest

from sluicegate_operator.api import BrokerCluster, parse_resource
from sluicegate_operator.engine.external_clusters import FOLLOWERS, UNREACHABLE_RETRY
from sluicegate_operator.handlers.reconcilers.external_brokers import ExternalBrokers
from sluicegate_operator.kafka_admin.errors import AdminTimeoutError, KafkaAdminError
from sluicegate_operator.planning.external.external_status import ExternalBroker, ExternalSeen, ReplicaCounts
from tests.support.manifests.bad_manifests import external

pytestmark = pytest.mark.virtual_time

BROKERS = tuple(ExternalBroker(number, "kafka", 9092 + number) for number in (1, 2))
SEEN = ExternalSeen("c", BROKERS)


def cluster(governs: str = "c", uid: str = "u") -> BrokerCluster:
    document = external()
    meta = {"namespace": "default", "uid": uid, "generation": 1}
    found = parse_resource({**document, "metadata": document["metadata"] | meta, "status": {"clusterId": governs}})
    assert isinstance(found, BrokerCluster)
    return found


class Outside:
    """The parts of Context and of the external fleet used here."""

    def __init__(self) -> None:
        self.seen, self.counted = SEEN, 0
        self.told: list[str] = []
        self.external = SimpleNamespace(observe=self._look, count_replicas=self._count)
        self.settings = SimpleNamespace(view_every_s=10.0)
        self.failure: KafkaAdminError | None = None
        self.brokers = ExternalBrokers(self)  # type: ignore[arg-type]

    def mark(self, queue: str, key: object) -> None:
        self.told.append(queue)

    def is_news(self, *_: str) -> bool:
        return True

    async def _look(self, _: BrokerCluster) -> ExternalSeen:
        return self.seen

    async def _count(self, _: BrokerCluster) -> Mapping[int, ReplicaCounts]:
        self.counted += 1
        if self.failure is not None:
            raise self.failure
        return {1: ReplicaCounts(self.counted, 2, 0)}

    async def tells(self, seen: ExternalSeen) -> list[str]:
        self.seen, self.told = seen, []
        await self.brokers.observe(cluster())
        return self.told


async def test_brokers_are_known_once_the_governed_cluster_has_listed_them() -> None:
    assert await Outside().brokers.observe(cluster()) == SEEN


@pytest.mark.parametrize(
    ("seen", "governs"),
    [
        (ExternalSeen(unseen="cannot connect"), "c"),
        (ExternalSeen("c", governed="BrokerCluster default/older governs it"), "c"),
        (SEEN, ""),
        (replace(SEEN, cluster_id="d"), "c"),
    ],
    ids=["nobody answers", "an older one governs it", "it is not known which it is", "another cluster answers"],
)
async def test_brokers_of_another_cluster_are_unknown(seen: ExternalSeen, governs: str) -> None:
    outside = Outside()
    outside.seen = seen
    assert await outside.brokers.observe(cluster(governs)) is None
    assert outside.brokers.again(None) is UNREACHABLE_RETRY


async def test_only_queues_that_depend_on_brokers_are_marked_when_brokers_change() -> None:
    outside = Outside()
    assert await outside.tells(SEEN) == ["clusters", *FOLLOWERS]
    assert await outside.tells(SEEN) == []
    assert await outside.tells(replace(SEEN, no_quorum="not asked")) == []
    assert await outside.tells(replace(SEEN, brokers=BROKERS[:1])) == ["clusters", *FOLLOWERS]
    assert await outside.tells(replace(SEEN, cluster_id="d", brokers=BROKERS[:1])) == ["clusters"]
    assert await outside.tells(ExternalSeen(unseen="cannot connect")) == ["clusters", *FOLLOWERS]
    assert await outside.tells(ExternalSeen(unseen="no answer")) == ["clusters"]


async def test_a_cluster_that_was_forgotten_is_news_again() -> None:
    outside = Outside()
    await outside.tells(SEEN)
    await outside.brokers.counts(cluster())
    outside.brokers.forget(("default", cluster().name))
    assert await outside.tells(SEEN) == ["clusters", *FOLLOWERS]
    await outside.brokers.counts(cluster())
    assert outside.counted == 2


async def test_replicas_are_counted_at_each_resync_and_what_cannot_be_counted_stays_as_it_was() -> None:
    outside, resync_s = Outside(), cluster().spec.resync_seconds
    for _ in range(2):
        assert (await outside.brokers.counts(cluster()))[1].leaders == 1
    await asyncio.sleep(resync_s)
    assert (await outside.brokers.counts(cluster()))[1].leaders == 2
    await asyncio.sleep(resync_s)
    outside.failure = AdminTimeoutError(("kafka", 9093), "Metadata", 5)
    for _ in range(2):
        assert (await outside.brokers.counts(cluster()))[1].leaders == 2
    assert outside.counted == 3


async def test_state_of_an_earlier_cluster_of_the_name_is_not_used() -> None:
    outside = Outside()
    await outside.brokers.observe(cluster())
    await outside.brokers.counts(cluster())
    outside.told.clear()
    await outside.brokers.observe(cluster(uid="of-the-next"))
    assert outside.told == ["clusters", *FOLLOWERS]
    assert (await outside.brokers.counts(cluster(uid="of-the-next")))[1].leaders == 2


async def test_the_next_look_is_never_at_the_same_moment_for_all() -> None:
    outside = Outside()
    waits = {outside.brokers.again(SEEN) for _ in range(20)}
    assert len(waits) > 1
    assert all(isinstance(wait_s, float) and 8 <= wait_s <= 12 for wait_s in waits)
