"""The quota path of one cluster: limits before their reports, and one late answer changes no verdict."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sluicegate_operator.api.models.connection_quota import ConnectionQuota
from sluicegate_operator.api.queues import Queue
from sluicegate_operator.engine.context.context import STATUS_WRITERS_MAX
from sluicegate_operator.engine.context.snapshot import Snapshot
from sluicegate_operator.engine.work_queue import Again, Retry
from sluicegate_operator.fleet.kafka.asking import BrokerPool
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.kube.cache.cached_object import CachedObject
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import BROKER_CLUSTER, BROKER_LISTENER, CONNECTION_QUOTA, Kind
from sluicegate_operator.planning.limits.workloads import Members
from sluicegate_operator.quotas.reconcile import STARTING_S, QuotaReconciler, SelectedPods
from sluicegate_operator.quotas.state.state import GovernedQuotas
from sluicegate_operator.quotas.state.unconfirmed_limits import AGAIN_S
from sluicegate_operator.quotas.statuses import QuotaStatuses
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import Json, MemoryKube
from tests.support.fakes.scripted_cluster import ScriptedCluster
from tests.support.fakes.scripted_peer import PeerRequest
from tests.support.manifests.quota_manifests import of_pods

pytestmark = pytest.mark.virtual_time

SHOP = ("default", "shop")
RESYNC_MAX_S = 70.0
"""Time within which everything is checked again."""
DESCRIBE_CONFIGS, DESCRIBE_CLIENT_QUOTAS, ALTER_CLIENT_QUOTAS = 32, 48, 49


def cluster(brokers: int) -> Json:
    return {
        "apiVersion": BROKER_CLUSTER.api_version,
        "kind": BROKER_CLUSTER.kind,
        "metadata": {"name": "shop"},
        "spec": {"brokers": {"replicas": brokers, "storage": {"size": "1Gi"}}},
    }


LISTENER: Json = {
    "apiVersion": BROKER_LISTENER.api_version,
    "kind": BROKER_LISTENER.kind,
    "metadata": {"name": "shop-external"},
    "spec": {"clusterRef": {"name": "shop"}, "name": "EXTERNAL", "port": 9094},
}
"""Without a listener there is no client to limit."""


def quota(name: str, address: str, rate: int = 5) -> Json:
    return {
        "apiVersion": CONNECTION_QUOTA.api_version,
        "kind": CONNECTION_QUOTA.kind,
        "metadata": {"name": name},
        "spec": {"clusterRef": {"name": "shop"}, "target": {"ip": address}, "maxConnectionCreationRate": rate},
    }


class SlowKube(MemoryKube):
    """Writes each status in a moment; notes the concurrent writes, and the written objects."""

    def __init__(self, *objects: Json) -> None:
        super().__init__(*objects)
        self.at_once = self.at_once_max = 0
        self.written: list[str] = []

    async def apply_status(self, *arguments: Any, **options: Any) -> CachedObject | None:
        self.at_once += 1
        self.at_once_max = max(self.at_once, self.at_once_max)
        await asyncio.sleep(0.01)
        held = await super().apply_status(*arguments, **options)
        self.written.append(arguments[2])
        self.at_once -= 1
        return held


class Shop:
    def __init__(self, kube: MemoryKube, brokers: int = 3, pods: SelectedPods | None = None) -> None:
        kube.put(LISTENER)
        self.kube = kube
        self.brokers = ScriptedCluster(brokers)
        self.marked: list[str] = []
        self.context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
        self.context.mark = lambda queue, _: self.marked.append(queue)
        self.context.is_due = lambda queue, _: False
        self.pool: BrokerPool | None = self.brokers.pool()

        async def the_pool(_: object) -> object:
            return self.pool

        self.context.pool = the_pool  # type: ignore[method-assign, assignment]
        self._reconciler = QuotaReconciler(self.context, pods)
        self._statuses = QuotaStatuses(self.context, self._reconciler.governed)

    @property
    def governed(self) -> GovernedQuotas:
        return self._reconciler.governed[SHOP]

    async def gather(self) -> Snapshot:
        return await self.context.gather(SHOP, [BROKER_LISTENER, CONNECTION_QUOTA])

    @staticmethod
    def now() -> datetime:
        return datetime.now(UTC)

    async def enforce(self) -> Again:
        return await self._reconciler.reconcile(SHOP)

    async def tell(self) -> Again:
        return await self._statuses.reconcile(SHOP)

    async def reconcile(self) -> Again:
        again = await self.enforce()
        await self.tell()
        return again

    def silence(self, broker_id: int) -> None:
        for api_key in (DESCRIBE_CONFIGS, DESCRIBE_CLIENT_QUOTAS):
            self.brokers.peers[broker_id].script(api_key, _say_nothing)

    def said(self, name: str) -> tuple[str, str, str]:
        ready = self.kube.condition("ConnectionQuota", name)
        return self.kube.take("ConnectionQuota", name)["status"]["brokers"], ready["status"], ready["reason"]


def _say_nothing(_: PeerRequest) -> None:
    return None


async def test_an_answer_that_is_late_changes_no_status() -> None:
    shop = Shop(MemoryKube(cluster(3), quota("one", "10.0.0.1")))
    await shop.reconcile()
    assert shop.said("one") == ("3/3", "True", "Enforced")
    shop.silence(2)
    await asyncio.sleep(RESYNC_MAX_S)
    for _ in range(2):
        assert isinstance(await shop.reconcile(), Retry)
        assert shop.said("one") == ("3/3", "True", "Enforced")
    assert not shop.context.progress[SHOP].unreachable


async def test_a_limit_that_brokers_refuse_is_a_matter_for_a_person_and_the_others_are_in_force() -> None:
    shop = Shop(MemoryKube(cluster(3), quota("one", "10.0.0.1"), quota("odd", "10.0.0.2", rate=13)))
    shop.brokers.refused_rates.add(13.0)
    for _ in range(2):
        await shop.reconcile()
    assert shop.said("one") == ("3/3", "True", "Enforced")
    assert shop.said("odd") == ("0/3", "False", "Refused")
    assert shop.kube.condition("ConnectionQuota", "odd", "Stalled")["status"] == "True"
    assert "INVALID_REQUEST" in shop.kube.condition("ConnectionQuota", "odd")["message"]
    assert [event["count"] for event in shop.kube.events("Refused")] == [1]


async def test_an_object_with_a_refused_status_does_not_delay_others(monkeypatch: pytest.MonkeyPatch) -> None:
    strange = quota("strange", "10.0.0.9")
    strange["spec"]["maxConnectionCreationRate"] = "many"
    shop = Shop(MemoryKube(cluster(3), quota("one", "10.0.0.1"), strange))
    write = shop.kube.apply_status

    async def refuse(kind: Kind, namespace: str, name: str, status: Json, **options: Any) -> None:
        if name == "strange":
            raise KubeError("PATCH /connectionquotas/strange/status: 422 spec: Invalid value", 422)
        await write(kind, namespace, name, status, **options)

    monkeypatch.setattr(shop.kube, "apply_status", refuse)
    await shop.reconcile()
    assert shop.said("one")[:2] == ("3/3", "True")
    [event] = shop.kube.events("Unreadable")
    assert event["involvedObject"]["name"] == "strange"


async def test_a_broker_that_stays_silent_is_unreachable_for_its_quotas_and_its_cluster() -> None:
    shop = Shop(MemoryKube(cluster(3), quota("one", "10.0.0.1")))
    await shop.reconcile()
    shop.silence(2)
    await asyncio.sleep(RESYNC_MAX_S)
    for _ in range(3):
        await shop.reconcile()
        await asyncio.sleep(3.0)
    assert shop.said("one") == ("2/3", "False", "BrokersUnreachable")
    assert list(shop.context.progress[SHOP].unreachable) == [2]
    assert set(shop.marked) == {Queue.STATUSES, Queue.OBSERVED, Queue.CLUSTERS}
    assert shop.marked.count("clusters") == 1


async def test_a_pass_that_outlives_its_cluster_notes_no_silent_broker_of_the_next_cluster_of_the_name() -> None:
    shop = Shop(MemoryKube(cluster(3), quota("one", "10.0.0.1")))
    await shop.reconcile()
    shop.silence(2)
    await asyncio.sleep(RESYNC_MAX_S)
    for _ in range(2):
        await shop.enforce()
        await asyncio.sleep(3.0)
    late = asyncio.create_task(shop.enforce())
    await asyncio.sleep(0.1)
    earlier = shop.context.progress[SHOP]
    assert not earlier.unreachable
    await shop.context.forget_cluster(SHOP)
    shop.kube.put(cluster(3) | {"metadata": {"name": "shop", "uid": "of-the-next"}})
    await late
    found = (await shop.gather()).cluster
    assert found is not None
    assert (list(earlier.unreachable), shop.context.progress.of(found).unreachable) == ([2], {})


async def test_a_changed_limit_is_not_reported_as_enforced_if_a_broker_does_not_answer() -> None:
    kube = MemoryKube(cluster(3), quota("one", "10.0.0.1"))
    shop = Shop(kube)
    await shop.reconcile()
    shop.silence(2)
    kube.put(quota("one", "10.0.0.1", rate=7))
    await shop.reconcile()
    assert shop.brokers.ip_rates == {"10.0.0.1": 7.0}
    assert shop.said("one") == ("2/3", "False", "Applying")


async def test_new_quotas_of_a_cluster_that_starts_are_told_once() -> None:
    kube = SlowKube(cluster(3), *(quota(f"q{number}", f"10.0.0.{number}") for number in range(20)))
    shop = Shop(kube)
    ready = shop.pool
    assert ready is not None
    shop.pool = None
    await shop.reconcile()
    shop.pool = replace(ready, brokers=tuple(replace(broker, up=broker.broker_id == 0) for broker in ready.brokers[:2]))
    await shop.reconcile()
    assert kube.written == []
    shop.pool = ready
    await shop.reconcile()
    assert sorted(kube.written) == sorted(f"q{number}" for number in range(20))
    assert shop.said("q7") == ("3/3", "True", "Enforced")


async def test_a_quota_reports_that_it_waits_for_brokers_that_do_not_start() -> None:
    kube = SlowKube(cluster(3), quota("one", "10.0.0.1"), quota("lost", "10.0.0.2"))
    kube.put(quota("lost", "10.0.0.2") | {"spec": quota("lost", "10.0.0.2")["spec"] | {"target": {"listener": "NONE"}}})
    shop = Shop(kube)
    shop.pool = None
    await shop.reconcile()
    assert kube.written == ["lost"], "what needs a person is told at once"
    await asyncio.sleep(STARTING_S)
    await shop.reconcile()
    assert shop.said("one") == ("0/3", "False", "Applying")
    kube.put(quota("new", "10.0.0.3"))
    await shop.reconcile()
    assert shop.said("new") == ("0/3", "False", "Applying")


async def test_a_new_quota_of_a_cluster_that_has_started_is_told_at_once_though_a_broker_is_down() -> None:
    shop = Shop(MemoryKube(cluster(3)))
    await shop.reconcile()
    assert shop.pool is not None
    shop.pool = replace(shop.pool, brokers=(*shop.pool.brokers[:2], replace(shop.pool.brokers[2], up=False)))
    shop.silence(2)
    shop.kube.put(quota("one", "10.0.0.1"))
    await shop.reconcile()
    assert shop.said("one") == ("2/3", "False", "Applying")


async def test_statuses_are_written_several_at_a_time_and_only_where_they_change() -> None:
    kube = SlowKube(cluster(1), *(quota(f"q{number}", f"10.0.0.{number}") for number in range(20)))
    shop = Shop(kube, brokers=1)
    await shop.reconcile()
    assert (kube.at_once_max, len(kube.written)) == (STATUS_WRITERS_MAX, 20)
    kube.put(quota("q7", "10.0.0.7", rate=9))
    await shop.reconcile()
    assert kube.written[20:] == ["q7"]


async def test_a_change_during_status_writes_is_enforced_and_reported_before_the_rest() -> None:
    kube = SlowKube(cluster(1), *(quota(f"q{number}", f"10.0.0.{number}") for number in range(40)))
    shop = Shop(kube, brokers=1)
    await shop.enforce()
    assert not kube.written, "limits wait for no status"
    telling = asyncio.create_task(shop.tell())
    await asyncio.sleep(0.015)
    shop.context.first_seen.note(kube.put(quota("urgent", "10.1.0.1", rate=1)))
    before = len(kube.written)
    await shop.enforce()
    assert shop.brokers.ip_rates["10.1.0.1"] == 1.0
    assert len(kube.written) < 3 * STATUS_WRITERS_MAX
    await telling
    # Of all pending reports, the newest is written first.
    assert "urgent" in kube.written[before : before + 2 * STATUS_WRITERS_MAX]
    assert len(kube.written) == 41


class FirstIsSlow(MemoryKube):
    """The first status of all takes longer than those after it."""

    def __init__(self, *objects: Json) -> None:
        super().__init__(*objects)
        self.writes = 0

    async def apply_status(self, *arguments: Any, **options: Any) -> CachedObject | None:
        self.writes += 1
        await asyncio.sleep(0.5 if self.writes == 1 else 0.01)
        return await super().apply_status(*arguments, **options)


async def test_a_status_that_changes_while_it_is_written_is_written_again_afterwards() -> None:
    kube = FirstIsSlow(cluster(1), quota("one", "10.0.0.1"), quota("two", "10.0.0.2"))
    shop = Shop(kube, brokers=1)
    await shop.enforce()
    telling = asyncio.create_task(shop.tell())
    await asyncio.sleep(0.005)
    for name, address in (("one", "10.0.0.1"), ("two", "10.0.0.2")):
        kube.put(quota(name, address, rate=9))
    await shop.enforce()
    await telling
    await shop.tell()
    rates = [kube.take("ConnectionQuota", name)["status"]["effective"] for name in ("one", "two")]
    assert rates == [{"maxConnectionCreationRate": 9}] * 2, "what was said first does not come last"


async def test_metrics_count_the_limits_by_state() -> None:
    shop = Shop(MemoryKube(cluster(3), quota("one", "10.0.0.1"), quota("odd", "10.0.0.2", rate=13)))
    shop.brokers.refused_rates.add(13.0)
    await shop.reconcile()
    counted = {
        sample.labels["state"]: sample.value
        for family in shop.context.figures.collect()
        for sample in family.samples
        if sample.name == "sluicegate_quotas"
    }
    assert counted == {"Enforced": 1, "Refused": 1}


async def test_a_quota_reports_its_missing_cluster_and_is_enforced_once_it_is_recreated() -> None:
    kube = MemoryKube(cluster(3), quota("one", "10.0.0.1"), quota("two", "10.0.0.2"))
    shop = Shop(kube)
    await shop.reconcile()
    kube.remove("BrokerCluster", "shop")
    kube.put(quota("typo", "10.0.0.3"))
    await shop.reconcile()
    assert [kube.condition("ConnectionQuota", name)["reason"] for name in ("one", "typo")] == ["ClusterMissing"] * 2
    shop.brokers.ip_rates.clear()
    kube.put(cluster(3))
    await shop.reconcile()
    assert shop.brokers.ip_rates == {"10.0.0.1": 5.0, "10.0.0.2": 5.0, "10.0.0.3": 5.0}
    assert shop.said("typo") == ("3/3", "True", "Enforced")


async def test_a_cluster_recreated_before_a_reconcile_receives_all_limits() -> None:
    kube = MemoryKube(cluster(3), quota("one", "10.0.0.1"), quota("two", "10.0.0.2"))
    shop = Shop(kube)
    await shop.reconcile()
    kube.remove("BrokerCluster", "shop")
    kube.put(cluster(3))
    shop.brokers.ip_rates.clear()
    await shop.reconcile()
    assert shop.brokers.ip_rates == {"10.0.0.1": 5.0, "10.0.0.2": 5.0}


async def test_changes_held_for_an_unreadable_quota_are_not_reported_as_enforced_and_follow_later() -> None:
    unreadable = quota("strange", "10.0.0.9")
    unreadable["spec"]["maxConnectionCreationRate"] = "many"
    kube = MemoryKube(cluster(3), quota("gone", "10.0.0.1"), quota("looser", "10.0.0.2"), quota("same", "10.0.0.3"))
    shop = Shop(kube)
    await shop.reconcile()
    kube.put(unreadable)
    kube.remove("ConnectionQuota", "gone")
    kube.put(quota("looser", "10.0.0.2", rate=50))
    for _ in range(2):
        await shop.reconcile()
        assert shop.brokers.ip_rates == {"10.0.0.1": 5.0, "10.0.0.2": 5.0, "10.0.0.3": 5.0}
        assert shop.said("looser") == ("0/3", "False", "Applying")
        assert "strange cannot be read" in kube.condition("ConnectionQuota", "looser")["message"]
        assert shop.said("same") == ("3/3", "True", "Enforced")
    kube.put(quota("strange", "10.0.0.9"))
    await shop.reconcile()
    assert shop.brokers.ip_rates == {"10.0.0.9": 5.0, "10.0.0.2": 50.0, "10.0.0.3": 5.0}
    assert shop.said("looser") == ("3/3", "True", "Enforced")
    assert not shop.kube.events("QuotaDriftMended")


class Selected:
    """Pods of quotas, reported once; notes the quotas for which they are watched."""

    in_all_namespaces = True
    unseen = ""

    def __init__(self, **news: Members) -> None:
        self.kept: dict[tuple[str, str], list[str]] = {}
        self.news = news

    def keep(self, cluster: tuple[str, str], quotas: Iterable[ConnectionQuota]) -> None:
        self.kept[cluster] = [quota.name for quota in quotas]

    def take_news(self, _: tuple[str, str]) -> Mapping[str, Members]:
        news, self.news = self.news, {}
        return news


async def test_no_pods_are_watched_for_a_cluster_that_has_gone_with_its_quotas() -> None:
    kube = MemoryKube(cluster(1), quota("one", "10.0.0.1"))
    shop, pods = Shop(kube, brokers=1), Selected()
    reconciler = QuotaReconciler(shop.context, pods)
    await reconciler.reconcile(SHOP)
    assert pods.kept == {SHOP: ["one"]}
    kube.remove("ConnectionQuota", "one")
    kube.remove("BrokerCluster", "shop")
    await reconciler.reconcile(SHOP)
    assert pods.kept == {SHOP: []}


async def test_a_quota_on_unwatched_pods_reports_this_and_keeps_its_limit() -> None:
    workload = quota("pods", "10.0.0.1")
    workload["spec"]["target"] = of_pods()
    kube = MemoryKube(cluster(1), workload, quota("one", "10.0.0.1"))
    pods = Selected(pods=Members({"10.0.0.9": 7.0}))
    shop = Shop(kube, brokers=1, pods=pods)
    await shop.reconcile()
    assert shop.said("pods") == ("1/1", "True", "Enforced")
    for unseen, told in (("403 Forbidden", ("1/1", "False", "PodsUnknown")), ("", ("1/1", "True", "Enforced"))):
        pods.unseen = unseen
        alterations = shop.brokers.alterations
        await shop.reconcile()
        assert shop.said("pods") == told
        assert unseen in kube.condition("ConnectionQuota", "pods")["message"]
        assert shop.said("one") == ("1/1", "True", "Enforced")
        assert shop.brokers.alterations == alterations
        assert shop.brokers.groups[("connection-group", "default/pods"), ("ip", "10.0.0.9")] == {"member": 7.0}


async def test_unknown_external_brokers_are_looked_up_again_at_once() -> None:
    outside = cluster(1) | {"spec": {"runtime": "External", "bootstrapServers": ["b0:9092"]}}
    shop = Shop(MemoryKube(outside, quota("one", "10.0.0.1")), 1)
    there = shop.context.pool

    async def nobody(_: object) -> None:
        return None

    shop.context.pool = nobody  # type: ignore[method-assign, assignment]
    assert isinstance(await shop.reconcile(), Retry)
    shop.context.pool = there  # type: ignore[method-assign]
    again = await shop.reconcile()
    assert not isinstance(again, Retry)
    assert shop.brokers.ip_rates == {"10.0.0.1": 5.0}
    assert shop.said("one") == ("1/1", "True", "Enforced")


async def test_a_paused_cluster_is_told_nothing() -> None:
    paused = cluster(1)
    paused["spec"]["paused"] = True
    shop = Shop(MemoryKube(paused, quota("one", "10.0.0.1")), brokers=1)
    await shop.reconcile()
    assert shop.brokers.ip_rates == {}
    assert shop.said("one")[1:] == ("False", "Paused")
    shop.kube.put(cluster(1))
    await shop.reconcile()
    assert shop.brokers.ip_rates == {"10.0.0.1": 5.0}
    assert shop.said("one") == ("1/1", "True", "Enforced")
    shop.kube.put(paused)
    await shop.reconcile()
    assert shop.said("one") == ("1/1", "True", "Paused")
    shop.kube.put(cluster(1))
    await shop.reconcile()
    assert shop.said("one") == ("1/1", "True", "Enforced")


async def test_a_limit_that_ends_before_the_resync_is_lifted_then() -> None:
    limited = quota("one", "10.0.0.1")
    limited["spec"]["expiresAt"] = (datetime.now(UTC) + timedelta(seconds=20)).strftime("%Y-%m-%dT%H:%M:%SZ")
    shop = Shop(MemoryKube(cluster(1), limited), brokers=1)
    again = await shop.enforce()
    assert isinstance(again, float)
    assert 0 < again <= 20


async def test_a_limit_that_has_ended_is_not_said_to_be_lifted_while_brokers_have_it() -> None:
    shop = Shop(MemoryKube(cluster(1), quota("one", "10.0.0.1")), brokers=1)
    await shop.reconcile()
    assert shop.said("one") == ("1/1", "True", "Enforced")
    strange = quota("strange", "10.0.0.9")
    strange["spec"]["maxConnectionCreationRate"] = "many"
    shop.kube.put(strange)
    ended = quota("one", "10.0.0.1")
    ended["spec"]["expiresAt"] = "2020-01-01T00:00:00Z"
    shop.kube.put(ended)
    await shop.reconcile()
    assert shop.brokers.ip_rates == {"10.0.0.1": 5.0}, "nothing is lifted while a quota cannot be read"
    assert shop.kube.condition("ConnectionQuota", "one")["reason"] == "Applying"
    assert shop.kube.condition("ConnectionQuota", "one", "Enforced")["status"] == "True"
    assert "lifted by 0/1 brokers" in shop.kube.condition("ConnectionQuota", "one")["message"]
    shop.kube.put(quota("strange", "10.0.0.9"))
    await shop.reconcile()
    assert shop.brokers.ip_rates == {"10.0.0.9": 5.0}
    ready = shop.kube.condition("ConnectionQuota", "one")
    assert (ready["status"], ready["reason"]) == ("True", "Expired")
    assert shop.kube.condition("ConnectionQuota", "one", "Enforced")["status"] == "False"


def expired(name: str, address: str) -> Json:
    ended = quota(name, address)
    ended["spec"]["expiresAt"] = "2020-01-01T00:00:00Z"
    return ended


async def test_that_a_limit_has_ended_is_posted_once_and_not_by_each_term() -> None:
    kube = MemoryKube(cluster(3), quota("one", "10.0.0.1"))
    first = Shop(kube)
    await first.reconcile()
    kube.put(expired("one", "10.0.0.1"))
    await first.reconcile()
    assert len(kube.events("Expired")) == 1
    # For the next operator, a broker answers slowly at first.
    second = Shop(kube)
    second.silence(2)
    await second.reconcile()
    assert second.said("one")[2] == "Applying"
    third = Shop(kube)
    await third.reconcile()
    assert third.said("one")[2] == "Expired"
    assert len(kube.events("Expired")) == 1


async def test_a_limit_that_ended_while_no_operator_ran_is_posted_once_it_is_lifted() -> None:
    kube = MemoryKube(cluster(3), quota("one", "10.0.0.1"))
    first = Shop(kube)
    await first.reconcile()
    kube.put(expired("one", "10.0.0.1"))
    second = Shop(kube)
    second.brokers, second.pool = first.brokers, first.pool
    for _ in range(2):
        await second.reconcile()
    assert second.said("one")[2] == "Expired"
    assert len(kube.events("Expired")) == 1


async def test_a_broker_that_is_to_go_and_serves_still_counts() -> None:
    shop = Shop(MemoryKube(cluster(2), quota("one", "10.0.0.1")), brokers=3)
    await shop.reconcile()
    assert shop.said("one") == ("3/3", "True", "Enforced")
    assert "enforced by all 3 brokers" in shop.kube.condition("ConnectionQuota", "one")["message"]
    shop.silence(2)
    shop.kube.put(quota("one", "10.0.0.1", rate=7))
    await shop.reconcile()
    assert shop.said("one")[:2] == ("2/3", "False")
    # A broker whose pod is not ready has no clients.
    assert shop.pool is not None
    going = tuple(replace(broker, up=broker.broker_id != 2) for broker in shop.pool.brokers)
    shop.pool = replace(shop.pool, brokers=going)
    await shop.reconcile()
    assert shop.said("one") == ("2/2", "True", "Enforced")


async def test_a_change_made_late_by_a_broker_is_undone_within_seconds() -> None:
    shop = Shop(MemoryKube(cluster(3), quota("one", "10.0.0.1")))
    await shop.reconcile()
    first = shop.brokers.peers[0]
    alter, taken = first._answers[ALTER_CLIENT_QUOTAS], list[PeerRequest]()
    first.script(ALTER_CLIENT_QUOTAS, taken.append)
    shop.kube.put(quota("one", "10.0.0.1", rate=7))
    await shop.reconcile()
    first.script(ALTER_CLIENT_QUOTAS, alter)
    shop.kube.put(quota("one", "10.0.0.1", rate=9))
    again = await shop.reconcile()
    assert shop.said("one") == ("3/3", "True", "Enforced")
    assert isinstance(again, float)
    assert again <= AGAIN_S
    [late] = taken
    alter(late)
    assert shop.brokers.ip_rates == {"10.0.0.1": 7.0}
    await asyncio.sleep(again)
    await shop.reconcile()
    assert shop.brokers.ip_rates == {"10.0.0.1": 9.0}
    assert shop.said("one") == ("3/3", "True", "Enforced")
    assert shop.kube.events("QuotaDriftMended") == []
