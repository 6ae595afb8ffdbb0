"""The status of one quota from what is known: nothing unknown, and the reason why a broker lags."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, BrokerListener, ConnectionQuota, parse_resource
from sluicegate_operator.api.models.connection_quota import ConnectionQuotaStatus, Holding, ObservedCounts
from sluicegate_operator.engine.context.first_seen import FirstSeen
from sluicegate_operator.planning.limits.limits import Missing, ObservedLimits
from sluicegate_operator.quotas.plan import Scope
from sluicegate_operator.quotas.state.known import ClusterFacts, KnownBrokers
from sluicegate_operator.quotas.state.state import GovernedQuotas
from tests.unit.sluicegate_operator.quotas.test_reconcile import LISTENER, cluster, quota

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CHART = Path(__file__).resolve().parents[5] / "charts" / "sluicegate"
ONE = quota("one", "10.0.0.1")
ON_LISTENER = quota("on-listener", "") | {
    "spec": {"clusterRef": {"name": "shop"}, "target": {"listener": "EXTERNAL"}, "maxConnectionCreationRate": 5}
}


class Shop:
    """Two expected brokers that have all wanted limits."""

    def __init__(self, *quotas: dict[str, Any], listeners: bool = True) -> None:
        self.governed = GovernedQuotas(brokers=KnownBrokers(facts=ClusterFacts((0, 1))))
        self.want(*quotas, listeners=listeners)
        for broker_id in (0, 1):
            self.answers(broker_id)

    def want(self, *quotas: dict[str, Any], listeners: bool = True) -> None:
        found = [parse_resource(document) for document in (cluster(2), LISTENER, *quotas)]
        [broker_cluster] = [one for one in found if isinstance(one, BrokerCluster)]
        ports = [one for one in found if isinstance(one, BrokerListener) and listeners]
        wanted = [one for one in found if isinstance(one, ConnectionQuota)]
        for _ in self.governed.replan(broker_cluster, Scope.of(broker_cluster, ports), wanted, {}, NOW):
            pass

    def answers(self, broker_id: int, *lacks: Any, open_: frozenset[str] = frozenset(("EXTERNAL",))) -> None:
        seen = ObservedLimits(listeners=open_)
        self.governed.brokers.ledger.answered(broker_id, ("b", broker_id), None, Missing(frozenset(lacks)), seen)

    def learn(self, facts: ClusterFacts) -> None:
        """Replace what all quotas share."""
        self.governed.brokers = replace(self.governed.brokers, facts=facts)

    @property
    def keys(self) -> frozenset[Any]:
        return frozenset(self.governed.plan.keys("one"))

    def assess(self) -> None:
        for _ in self.governed.assess(FirstSeen(), NOW):
            pass

    def status(self, name: str = "one") -> ConnectionQuotaStatus | None:
        self.assess()
        return self.governed.status(name, NOW, NOW)

    def waiting(self) -> list[str]:
        """Quotas whose report has changed; marks them as reported."""
        self.assess()
        names = []
        while (name := self.governed.statuses.waiting.take()) is not None:
            self.governed.quotas[name].written = self.governed.quotas[name].assessment
            names.append(name)
        return names

    def ready(self, name: str = "one") -> tuple[str, str, str]:
        status = self.status(name)
        assert status is not None
        found = status.condition("Ready")
        assert found is not None
        return status.brokers, found.reason, found.message


def test_a_quota_that_all_brokers_have_is_enforced_and_that_is_noted() -> None:
    shop = Shop(ONE)
    assert shop.ready()[:2] == ("2/2", "Enforced")
    assert shop.governed.statuses.states == {"one": "Enforced"}


def test_a_missing_quota_or_one_not_yet_sent_to_brokers_has_no_status() -> None:
    shop = Shop(ONE)
    assert shop.status("another") is None
    assert shop.status() is not None
    shop.want(quota("one", "10.0.0.1", rate=9) | {"metadata": {"name": "one", "generation": 2}})
    assert shop.governed.status("one", NOW, NOW) is None
    assert shop.status() is not None


def test_only_quotas_that_miss_their_listener_get_no_status_while_listeners_are_unreadable() -> None:
    shop = Shop(ONE, ON_LISTENER, listeners=False)
    missing = shop.status("on-listener")
    assert missing is not None
    shop.learn(ClusterFacts((0, 1), mute=True))
    assert shop.status("on-listener") is None
    found = Shop(ONE, ON_LISTENER)
    found.learn(ClusterFacts((0, 1), mute=True))
    assert found.ready("on-listener")[:2] == ("2/2", "Enforced")


def test_why_brokers_lag_is_said_only_of_quotas_that_some_lack() -> None:
    shop = Shop(ONE, quota("two", "10.0.0.2"))
    shop.learn(ClusterFacts((0, 1), error="the connection was lost"))
    shop.answers(1, *shop.keys)
    brokers, reason, message = shop.ready()
    assert (brokers, reason) == ("1/2", "Applying")
    assert "the connection was lost" in message
    assert shop.ready("two")[:2] == ("2/2", "Enforced")
    assert "lost" not in shop.ready("two")[2]
    assert sorted(shop.waiting()) == ["one", "two"]
    shop.learn(ClusterFacts((0, 1), error="the connection was refused"))
    assert shop.waiting() == ["one"], "only those that lag say why"
    assert shop.waiting() == []


def test_a_refusal_takes_precedence_over_a_connection_error_if_a_broker_lacks_the_limit() -> None:
    shop = Shop(ONE)
    shop.learn(ClusterFacts((0, 1), error="the connection was lost"))
    shop.governed.brokers.ledger.refused = dict.fromkeys(shop.keys, "INVALID_REQUEST")
    assert shop.ready()[:2] == ("2/2", "Enforced")
    shop.answers(1, *shop.keys)
    _, reason, message = shop.ready()
    assert reason == "Refused"
    assert "INVALID_REQUEST" in message
    assert "lost" not in message


def test_a_listener_that_is_not_open_is_no_refusal() -> None:
    shop = Shop(ON_LISTENER)
    keys = shop.governed.plan.keys("on-listener")
    shop.governed.brokers.ledger.refused = dict.fromkeys(keys, "INVALID_REQUEST")
    shop.answers(1, *keys, open_=frozenset())
    brokers, reason, message = shop.ready("on-listener")
    assert (brokers, reason) == ("1/2", "Applying")
    assert "listener EXTERNAL is not open on these brokers" in message


@pytest.mark.parametrize("unreachable", [frozenset({1}), frozenset[int]()])
def test_a_broker_that_is_silent_for_long_enforces_nothing(unreachable: frozenset[int]) -> None:
    shop = Shop(ONE)
    shop.learn(ClusterFacts((0, 1), unreachable))
    assert shop.ready()[0] == ("1/2" if unreachable else "2/2")


def test_a_withheld_limit_is_enforced_nowhere() -> None:
    shop = Shop(ONE)
    shop.governed.brokers.ledger.kept = shop.keys
    assert shop.ready()[:2] == ("0/2", "Applying")


@pytest.mark.parametrize(
    ("spec", "paused", "state"),
    [
        ({}, False, "Enforced"),
        ({"mode": "Observe"}, False, "Observing"),
        ({"expiresAt": "2020-01-01T00:00:00Z"}, False, "Expired"),
        ({}, True, "Paused"),
    ],
)
def test_a_quota_in_its_requested_state_is_counted_by_neither_alert_nor_dashboard(
    spec: dict[str, Any], paused: bool, state: str
) -> None:
    document = quota("one", "10.0.0.1")
    shop = Shop(document | {"spec": document["spec"] | spec})
    shop.governed.paused = paused
    shop.status()
    assert shop.governed.statuses.states == {"one": state}
    alert = re.search(r'sluicegate_quotas\{state!~"(.*)"\}', (CHART / "alerts.yaml").read_text())
    panel = re.search(r'state=~\\"([^"]*)\\"', (CHART / "dashboards" / "quotas.json").read_text())
    for pattern in (alert, panel):
        assert pattern is not None
        assert re.fullmatch(pattern[1], state)


def test_a_quota_of_a_paused_cluster_is_counted_by_its_condition() -> None:
    missing = {"type": "Enforced", "status": "False", "reason": "ClusterMissing", "lastTransitionTime": NOW.isoformat()}
    shop = Shop(ONE | {"status": {"conditions": [missing]}})
    shop.governed.statuses.states["one"] = "ClusterMissing"
    shop.governed.paused = True
    status = shop.status()
    assert status is not None
    found = status.condition("Enforced")
    assert found is not None
    assert (found.reason, shop.governed.statuses.states) == ("Paused", {"one": "Paused"})


def test_what_brokers_of_an_earlier_cluster_have_counted_is_forgotten() -> None:
    governed = Shop(ONE).governed
    one = governed.quotas["one"]
    one.observed, one.holding = ObservedCounts(would_hold=1234), Holding(summary="12/s")
    governed.keep_to("first")
    governed.keep_to("first")
    assert one.observed is not None, "an operator that has just started goes by the status"
    governed.keep_to("second")
    left = [one.observed, one.holding]
    assert left == [None, None]


def test_the_status_takes_no_figure_of_an_earlier_cluster_back() -> None:
    counted = {"observed": {"wouldHold": 4711, "brokers": "3/3"}}
    shop = Shop(ONE | {"spec": ONE["spec"] | {"mode": "Observe"}, "status": counted})
    governed = shop.governed
    governed.keep_to("first")
    status = shop.status()
    assert status is not None
    assert status.observed == ObservedCounts(would_hold=4711, brokers="3/3")
    governed.keep_to("second")
    governed.brokers = replace(governed.brokers, facts=ClusterFacts((0, 1, 2)))
    assert list(governed.assess(FirstSeen(), NOW)) == []
    status = shop.status()
    assert status is not None
    assert status.observed is None
