"""Brokers are told which ConnectionQuota has set a limit: apart from the limits, and only if they know the key."""

from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, BrokerListener, ConnectionQuota, parse_resource
from sluicegate_operator.api.configs.config_keys import QUOTA_NAMES
from sluicegate_operator.quotas import quota_names
from sluicegate_operator.quotas.plan import QuotaPlan, plan_quotas
from sluicegate_operator.quotas.quota_names import QuotaNames, value_of
from tests.support.fakes.scripted_cluster import ScriptedCluster
from tests.support.manifests.bad_manifests import cluster, listener, quota
from tests.support.manifests.quota_manifests import adaptive

pytestmark = pytest.mark.virtual_time

ALL: dict[str, Any] = {"broker": {}}
EXTERNAL: dict[str, Any] = {"listener": "EXTERNAL"}
LISTENER = "listener.name.external."


def parsed(document: dict[str, Any], kind: type[Any]) -> Any:
    found = parse_resource(document)
    assert isinstance(found, kind)
    return found


def a_quota(name: str, target: dict[str, Any], **limits: Any) -> ConnectionQuota:
    document = quota(target, **limits)
    made: ConnectionQuota = parsed(document | {"metadata": {"name": name}}, ConnectionQuota)
    return made


CLUSTER: BrokerCluster = parsed(cluster(), BrokerCluster)


def plan(*quotas: ConnectionQuota) -> QuotaPlan:
    return plan_quotas(CLUSTER, [parsed(listener(), BrokerListener)], quotas)


def test_each_limit_has_the_quota_that_is_enforced() -> None:
    found = plan(
        a_quota("rate", ALL, maxConnectionCreationRate=10, maxConnections=100),
        a_quota("count", ALL, maxConnections=50),
        a_quota("outside", EXTERNAL, maxConnectionCreationRate=5),
        a_quota("each", {"defaultIp": {}}, maxConnectionCreationRate=2, maxConnections=3),
        a_quota("one", {"ip": "10.0.0.1"}, maxConnectionCreationRate=2, maxConnections=3),
        a_quota("range", {"cidr": "10.0.0.0/24"}, maxConnectionCreationRate=2),
    )
    assert value_of(found).split(",") == [
        "max.connection.creation.rate=default/rate",
        "max.connections=default/count",
        "connection_creation_rate=default/each",
        "max.connections.per.ip=default/each",
        f"{LISTENER}max.connection.creation.rate=default/outside",
    ]


def test_a_rate_that_adapts_is_named_by_its_objective_and_by_its_maximum() -> None:
    assert value_of(plan(a_quota("calm", EXTERNAL, adaptive=adaptive()))).split(",") == [
        f"{LISTENER}connection.quota.adaptive.p99.ms=default/calm",
        f"{LISTENER}max.connection.creation.rate=default/calm",
    ]


def test_a_quota_without_its_listener_has_no_name() -> None:
    assert value_of(plan(a_quota("late", {"listener": "LATE"}, maxConnectionCreationRate=5))) == ""


def test_names_that_do_not_fit_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_names, "BYTES_MAX", 40)
    both = plan(a_quota("all", ALL, maxConnections=9), a_quota("outside", EXTERNAL, maxConnections=8))
    assert value_of(both) == "max.connections=default/all"


class Told:
    """A cluster of two brokers that know the key, unless they are `old`."""

    def __init__(self, *, old: bool = False) -> None:
        self.brokers = ScriptedCluster(2)
        if not old:
            self.brokers.built_in[QUOTA_NAMES] = ""
        self._names = QuotaNames()
        self._pool = self.brokers.pool()

    async def send(self, *quotas: ConnectionQuota, check: bool = False) -> str | None:
        await self._names.send(CLUSTER, self._pool, plan(*quotas), check=check)
        return self.brokers.defaults.get(QUOTA_NAMES)


async def test_names_are_sent_once_and_removed_with_the_last_limit() -> None:
    told, limit = Told(), a_quota("all", ALL, maxConnections=9)
    for _ in range(2):
        assert await told.send(limit) == "max.connections=default/all"
    assert told.brokers.alterations == 1
    assert await told.send() is None
    assert told.brokers.alterations == 2


async def test_an_older_broker_gets_no_names_until_it_knows_the_key() -> None:
    told, limit = Told(old=True), a_quota("all", ALL, maxConnections=9)
    assert await told.send(limit, check=True) is None
    assert told.brokers.alterations == 0
    told.brokers.built_in[QUOTA_NAMES] = ""
    assert await told.send(limit) is None
    assert await told.send(limit, check=True) == "max.connections=default/all"


async def test_names_that_were_changed_manually_are_restored_with_the_next_check() -> None:
    told, limit = Told(), a_quota("all", ALL, maxConnections=9)
    await told.send(limit)
    told.brokers.defaults[QUOTA_NAMES] = "max.connections=default/other"
    assert await told.send(limit, check=True) == "max.connections=default/all"


async def test_names_that_were_refused_or_not_answered_are_sent_with_the_next_pass() -> None:
    told, limit = Told(), a_quota("all", ALL, maxConnections=9)
    told.brokers.refused.add("max.connections=default/all")
    assert await told.send(limit) is None
    told.brokers.refused.clear()
    told.brokers.unanswered = {0: 9, 1: 9}
    assert await told.send(limit) is None
    told.brokers.unanswered.clear()
    assert await told.send(limit) == "max.connections=default/all"


async def test_a_cluster_without_limits_is_not_asked() -> None:
    told = Told()
    assert await told.send(check=True) is None
    assert [peer.requests for peer in told.brokers.peers] == [[], []]
