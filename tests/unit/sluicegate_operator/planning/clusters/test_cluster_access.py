"""Client addresses and the running release in a BrokerCluster's status."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, BrokerListener, parse_resource
from sluicegate_operator.api.models.parts.broker_cluster_status import BrokerClusterStatus, ListenerAddresses
from sluicegate_operator.planning.clusters.cluster_access import (
    broker_selector,
    client_listeners,
    metadata_version,
    version_range,
)
from sluicegate_operator.planning.clusters.cluster_status import cluster_status
from sluicegate_operator.planning.external.external_status import (
    ConfigProgress,
    ExternalBroker,
    ExternalSeen,
    external_status,
)
from tests.support.manifests.bad_manifests import cluster, external, named_listener
from tests.support.worlds.observed_clusters import observed_cluster

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
EXTERNAL = ListenerAddresses(name="EXTERNAL", bootstrap_servers="shop-external.default.svc:9094")
PARTNERS = ListenerAddresses(name="PARTNERS", bootstrap_servers="partners.example.org:9095")
RUNNING: dict[str, Any] = {"brokers_expected": 3, "brokers_ready": 3}


def a_listener(name: str, bootstrap: str, *, stalled: bool = False, generation: int = 1) -> BrokerListener:
    condition = {
        "type": "Stalled",
        "status": str(stalled),
        "reason": "Applying",
        "lastTransitionTime": "2026-01-01T12:00:00Z",
    }
    status = {"observedGeneration": 1, "bootstrap": bootstrap, "conditions": [condition]}
    document = named_listener(name)
    meta = document["metadata"] | {"generation": generation}
    parsed = parse_resource(document | {"metadata": meta, "status": status})
    assert isinstance(parsed, BrokerListener)
    return parsed


def a_cluster(document: dict[str, Any]) -> BrokerCluster:
    parsed = parse_resource(document)
    assert isinstance(parsed, BrokerCluster)
    return parsed


def shown(status: BrokerClusterStatus) -> tuple[str, tuple[ListenerAddresses, ...] | None, str | None]:
    return status.bootstrap_servers, status.listeners, status.version


@pytest.mark.parametrize("older_first", [True, False])
def test_a_listener_that_clashes_does_not_hide_the_one_that_serves(older_first: bool) -> None:
    pair = [a_listener("EXTERNAL", EXTERNAL.bootstrap_servers), a_listener("EXTERNAL", "", stalled=True)]
    assert client_listeners(pair if older_first else pair[::-1], ()) == (EXTERNAL,)


def test_the_first_listener_by_name_is_where_clients_begin() -> None:
    listeners = client_listeners(
        [
            a_listener("PARTNERS", PARTNERS.bootstrap_servers),
            a_listener("CLOSED", ""),
            a_listener("EXTERNAL", EXTERNAL.bootstrap_servers),
        ],
        (),
    )
    assert listeners == (EXTERNAL, PARTNERS)
    status = cluster_status(a_cluster(cluster()), observed_cluster(**RUNNING, listeners=listeners), NOW)
    assert shown(status) == (EXTERNAL.bootstrap_servers, listeners, None)


@pytest.mark.parametrize("count", [64, 65, 100])
def test_a_status_shows_as_many_listeners_as_the_crd_allows(count: int) -> None:
    listeners = client_listeners([a_listener(f"L{n:03}", f"l{n}.default.svc:{20000 + n}") for n in range(count)], ())
    assert len(listeners) == count
    status = cluster_status(a_cluster(cluster()), observed_cluster(**RUNNING, listeners=listeners), NOW)
    assert shown(status) == (listeners[0].bootstrap_servers, listeners[:64], None)


def test_a_roll_does_not_take_the_address_away() -> None:
    assert client_listeners([a_listener("EXTERNAL", "")], [EXTERNAL]) == (EXTERNAL,)


@pytest.mark.parametrize("why", [{"stalled": True}, {"generation": 2}], ids=["it needs a person", "its spec changed"])
def test_an_address_that_may_be_wrong_is_not_kept(why: dict[str, Any]) -> None:
    assert client_listeners([a_listener("EXTERNAL", "", **why)], [EXTERNAL]) == ()


def test_a_listener_that_was_deleted_is_not_kept() -> None:
    assert client_listeners([], [EXTERNAL]) == ()


@pytest.mark.parametrize(
    ("said", "range_"),
    [
        ([], None),
        ([None, None], None),
        (["0.1.0", "0.1.0", None], "0.1.0"),
        (["0.10.0", "0.9.1", "0.9.1"], "0.9.1 to 0.10.0"),
        (["0.2.0", "0.2.0rc1"], "0.2.0 to 0.2.0rc1"),
    ],
)
def test_releases_are_one_or_a_range(said: list[str | None], range_: str | None) -> None:
    assert version_range(said) == range_


def test_the_version_stays_while_no_broker_says_it() -> None:
    before = cluster_status(a_cluster(cluster()), observed_cluster(**RUNNING, version="0.1.0"), NOW)
    assert before.version == "0.1.0"
    again = a_cluster(cluster()).model_copy(update={"status": before})
    assert cluster_status(again, observed_cluster(**RUNNING), NOW).version == "0.1.0"


def test_an_autoscaler_finds_the_pods_that_there_are() -> None:
    status = cluster_status(a_cluster(cluster()), observed_cluster(**RUNNING, broker_pods=4), NOW)
    assert status.replicas == 4
    assert status.selector == broker_selector("shop")
    assert status.selector == (
        "app.kubernetes.io/component=broker,app.kubernetes.io/name=sluicegate,sluicegate.dev/cluster=shop"
    )


def test_an_external_cluster_shows_its_servers_and_its_metadata_version() -> None:
    document = external(bootstrapServers=["kafka-0:9092", "kafka-1:9092"])
    seen = ExternalSeen("abc", (ExternalBroker(0, "kafka-0", 9092),), metadata_version=30)
    status = external_status(a_cluster(document), seen, ConfigProgress(), NOW)
    assert shown(status) == ("kafka-0:9092,kafka-1:9092", None, "4.3-IV0")
    assert (status.replicas, status.selector) == (None, None)
    unseen = external_status(
        a_cluster(document | {"status": status.manifest()}), ExternalSeen(unseen="away"), ConfigProgress(), NOW
    )
    assert shown(unseen) == shown(status)


@pytest.mark.parametrize(("level", "name"), [(None, None), (7, "3.3-IV3"), (30, "4.3-IV0"), (99, "level 99")])
def test_levels_have_kafkas_names(level: int | None, name: str | None) -> None:
    assert metadata_version(level) == name
