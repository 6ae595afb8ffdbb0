"""The plans of observers that give the brokers of `sluicegate up` a lander."""

from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, ObserverPlugin, parse_resource
from sluicegate_operator.local.landers import has_audit_log
from sluicegate_operator.planning.observers.observers import plan_observers
from tests.support.manifests.bad_manifests import cluster, observer


@pytest.mark.parametrize(
    ("spec", "landed"),
    [
        ({"builtIn": "audit-log"}, True),
        ({"builtIn": "audit-log", "config": {"level": "full"}}, True),
        ({"builtIn": "audit-log", "config": {"spool.dir": "/elsewhere"}}, False),
        ({"class": "acme.Observer"}, False),
        ({"class": "acme.Observer", "config": {"mode": "audit-log"}}, False),
        ({"class": "acme.Observer", "config": {"inner.class": "audit-log"}}, False),
    ],
)
def test_only_an_observer_that_is_the_audit_log_has_a_lander(spec: dict[str, Any], landed: bool) -> None:
    made, plugin = parse_resource(cluster()), parse_resource(observer("one", **spec))
    assert isinstance(made, BrokerCluster)
    assert isinstance(plugin, ObserverPlugin)
    assert has_audit_log(plan_observers(made, [plugin])) is landed
