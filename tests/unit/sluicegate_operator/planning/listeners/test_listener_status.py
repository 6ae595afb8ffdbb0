"""Status of listeners: kstatus, and the messages to users."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, BrokerListener, parse_resource
from sluicegate_operator.api.models.broker_listener import BrokerListenerStatus
from sluicegate_operator.planning.layout.cluster_layout import plan_cluster
from sluicegate_operator.planning.listeners.exposure import HIDDEN, Address, Hiding
from sluicegate_operator.planning.listeners.listener_status import ServicesSeen, listener_status
from sluicegate_operator.planning.listeners.listeners import ListenerSeen
from tests.support.manifests.bad_manifests import cluster, listener
from tests.support.oracles.kstatus import kstatus as kstatus_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
THREE = {2: Address("c", 1), 0: Address("a", 1), 1: Address("b", 1)}
SERVED = ServicesSeen(bootstrap="shop-external.default.svc:9094")


def kstatus(status: BrokerListenerStatus) -> str:
    return kstatus_of({"metadata": {"generation": 1}, "status": status.manifest()})


def a_listener(name: str = "shop-external", **metadata: Any) -> BrokerListener:
    document = listener(name)
    found = parse_resource(document | {"metadata": document["metadata"] | {"generation": 1} | metadata})
    assert isinstance(found, BrokerListener)
    return found


def status_of(seen: ListenerSeen, services: ServicesSeen = SERVED) -> BrokerListenerStatus:
    of = parse_resource(cluster())
    assert isinstance(of, BrokerCluster)
    return listener_status(a_listener(), plan_cluster(of, [a_listener()]), seen, NOW, services)


@pytest.mark.parametrize(
    ("seen", "verdict", "message", "brokers"),
    [
        pytest.param(ListenerSeen(THREE), "Current", "open on 3/3 brokers", "3/3", id="everywhere"),
        pytest.param(
            ListenerSeen({0: THREE[0]}), "InProgress", "open on 1/3 brokers", "1/3", id="two that are not ready"
        ),
        pytest.param(
            ListenerSeen({}, lacking=(0, 1, 2)),
            "InProgress",
            "open on 0/3 brokers; the change is being applied on 0, 1, 2",
            "0/3",
            id="brokers that have not got it yet",
        ),
        pytest.param(
            ListenerSeen({0: THREE[0], 1: THREE[1]}, unknown=(2,)),
            "InProgress",
            "open on 2/3 brokers; broker 2 did not report its open listeners",
            "2/3",
            id="a broker that does not answer",
        ),
        pytest.param(
            ListenerSeen({0: THREE[0], 1: THREE[1]}, lacking=(2,), refused={2: "port 9094 is taken"}),
            "Failed",
            "open on 2/3 brokers; broker 2 refuses it: port 9094 is taken",
            "2/3",
            id="a broker that refuses",
        ),
        pytest.param(
            ListenerSeen(THREE, waits=("broker 1 waits for a node",)),
            "InProgress",
            "open on 3/3 brokers; broker 1 waits for a node",
            "2/3",
            id="a broker that clients cannot reach yet",
        ),
    ],
)
def test_listener_status(seen: ListenerSeen, verdict: str, message: str, brokers: str) -> None:
    status = status_of(seen)
    assert kstatus(status) == verdict
    assert status.conditions[0].message == message
    assert status.brokers == brokers
    assert status.addresses == tuple(sorted(str(address) for address in seen.told.values()))
    assert bool(status.bootstrap) is (verdict != "InProgress")


@pytest.mark.parametrize("services", [ServicesSeen(name_taken="taken by"), ServicesSeen(refusal="422 nodePort")])
def test_a_service_that_cannot_be_is_a_matter_for_a_person(services: ServicesSeen) -> None:
    status = status_of(ListenerSeen(THREE), services)
    assert kstatus(status) == "Failed"
    assert status.conditions[0].message in ("taken by", "422 nodePort")
    assert status.bootstrap == ""


def test_hidden_addresses_are_reported_and_do_not_block_readiness() -> None:
    status = status_of(ListenerSeen(THREE), ServicesSeen(hiding=Hiding(hidden=True, reason="Why", message="sentence")))
    assert kstatus(status) == "Current"
    found = status.condition(HIDDEN)
    assert found is not None
    assert (found.status, found.reason, found.message) == ("True", "Why", "sentence")


def test_a_listener_without_its_cluster_fails_with_a_sentence() -> None:
    status = listener_status(a_listener(), None, ListenerSeen(THREE), NOW)
    assert kstatus(status) == "Failed"
    assert "create it or correct clusterRef" in status.conditions[0].message
    assert status.addresses == ()


def test_a_listener_that_clashes_fails_and_has_no_bootstrap() -> None:
    of = parse_resource(cluster())
    assert isinstance(of, BrokerCluster)
    younger = a_listener("younger", creationTimestamp="2026-02-01T00:00:00Z")
    layout = plan_cluster(of, [a_listener(), younger])
    # Brokers have the other listener open under that name.
    for seen in (ListenerSeen(), ListenerSeen(THREE)):
        status = listener_status(younger, layout, seen, NOW, SERVED)
        assert kstatus(status) == "Failed"
        assert (status.brokers, status.bootstrap, status.addresses) == ("0/3", "", ())
