"""Layouts: ids, listeners, and properties that the broker itself accepts."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from broker_runtime.config import broker_settings, parse_properties
from broker_runtime.controller.journal.kube_store import owner_reference
from sluicegate_operator.api import BrokerCluster, BrokerListener, parse_resource
from sluicegate_operator.planning.layout.cluster_layout import (
    ClusterLayout,
    NodePlace,
    Role,
    dynamic_config,
    node_overrides,
    plan_cluster,
    silence_max_s,
    static_config,
)
from sluicegate_operator.resources.properties import render_properties
from tests.support.manifests.bad_manifests import cluster, external, listener, manifest

PLACE = NodePlace("10.1.2.3", "10.1.2.3", "/data", ("shop-controllers-0.example:9093",))


def layout(*listeners: dict[str, Any], **spec: Any) -> ClusterLayout:
    of = parse_resource(cluster(**spec))
    assert isinstance(of, BrokerCluster)
    parsed = [parse_resource(document) for document in listeners]
    return plan_cluster(of, [one for one in parsed if isinstance(one, BrokerListener)])


def another(name: str, kafka_name: str, port: int, cluster_name: str = "shop", created: str = "") -> dict[str, Any]:
    spec = {"clusterRef": {"name": cluster_name}, "name": kafka_name, "port": port}
    document = manifest("BrokerListener", spec, name)
    return document | {"metadata": {"name": name, "creationTimestamp": created or "2026-01-01T00:00:00Z"}}


def test_brokers_count_from_zero_and_controllers_from_a_thousand() -> None:
    made = layout()
    assert (made.broker_ids, made.controller_ids) == ((0, 1, 2), (1000,))


@pytest.mark.parametrize(
    ("role", "node_id", "roles", "listeners"),
    [
        (Role.BROKER, 2, {"broker"}, ["INTERNAL://10.1.2.3:9091", "EXTERNAL://10.1.2.3:9094"]),
        (Role.CONTROLLER, 1000, {"controller"}, ["CONTROLLER://10.1.2.3:9093"]),
    ],
)
def test_the_broker_accepts_what_is_laid_out(role: Role, node_id: int, roles: set[str], listeners: list[str]) -> None:
    made = layout(listener(), config={"num.partitions": "3"}, connectionQuota={"strategy": "token-bucket"})
    shared = parse_properties(render_properties(made.properties(role)), "server.properties")
    overrides = node_overrides(made, node_id, role, PLACE)
    assert not set(shared) & set(overrides)
    settings = broker_settings(shared | overrides)
    assert settings.node_id == node_id
    assert settings.roles == roles
    assert [str(endpoint) for endpoint in settings.listeners] == listeners
    assert settings.http == ("10.1.2.3", 9404)
    assert [str(server) for server in settings.quorum] == ["shop-controllers-0.example:9093"]
    assert settings.config.num_partitions == 3
    assert settings.config.connection_quota_strategy == "token-bucket"
    assert settings.inter_broker_listener == ("INTERNAL" if role is Role.BROKER else "")


def test_standby_controllers_share_a_journal_in_the_api() -> None:
    made = layout(controllers={"replicas": 3})
    assert made.controller_ids == (1000, 1001, 1002)
    given = {**made.properties(Role.CONTROLLER), **node_overrides(made, 1000, Role.CONTROLLER, PLACE)}
    settings = broker_settings(given)
    assert settings.config.sluicegate_controller_journal == "kubernetes"
    assert settings.config.sluicegate_controller_journal_namespace == "default"
    alone = layout()
    assert alone.properties(Role.CONTROLLER)["sluicegate.controller.journal"] == "file"
    assert "sluicegate.controller.journal" not in alone.properties(Role.BROKER)


def journal_of(uid: str) -> Mapping[str, str]:
    document = cluster(controllers={"replicas": 3})
    of = parse_resource(document | {"metadata": document["metadata"] | {"uid": uid}})
    assert isinstance(of, BrokerCluster)
    return plan_cluster(of, []).properties(Role.CONTROLLER)


def test_a_journal_belongs_to_one_cluster_and_is_deleted_with_it() -> None:
    """A later cluster of the same name has another journal."""
    uids = ("0b8e6c1e-7b6f-4f5e-9d0a-3f4f0c1d2e3f", "1c8e6c1e-7b6f-4f5e-9d0a-3f4f0c1d2e3f")
    first, second, unowned = (journal_of(uid) for uid in (*uids, ""))
    assert first["sluicegate.controller.journal.name"] == "shop-journal-0b8e6c1e"
    assert second["sluicegate.controller.journal.name"] == "shop-journal-1c8e6c1e"
    owner = owner_reference(first["sluicegate.controller.journal.owner"])
    assert owner == {"apiVersion": "sluicegate.dev/v1alpha1", "kind": "BrokerCluster", "name": "shop", "uid": uids[0]}
    assert "sluicegate.controller.journal.owner" not in unowned


def test_what_kafka_calls_dynamic_is_not_laid_out() -> None:
    of = parse_resource(cluster(config={"num.partitions": "3", "log.retention.ms": "60000"}))
    assert isinstance(of, BrokerCluster)
    assert dynamic_config(of) == {"log.retention.ms": "60000"}
    assert static_config(of) == {"num.partitions": "3"}
    assert "log.retention.ms" not in plan_cluster(of, []).broker_properties


def test_brokers_that_are_still_to_go_are_laid_out() -> None:
    of = parse_resource(cluster())
    assert isinstance(of, BrokerCluster)
    assert plan_cluster(of, [], 5).broker_ids == (0, 1, 2, 3, 4)


def test_a_laptop_gives_every_node_its_own_ports() -> None:
    place = NodePlace(
        "127.0.0.1", "127.0.0.1", "/d", ("127.0.0.1:1",), http_port=4, ports={"INTERNAL": 2, "EXTERNAL": 3}
    )
    overrides = node_overrides(layout(listener()), 1, Role.BROKER, place)
    assert overrides["listeners"] == "INTERNAL://127.0.0.1:2,EXTERNAL://127.0.0.1:3"
    assert overrides["sluicegate.http.listener"] == "127.0.0.1:4"


def test_ipv6_addresses_stand_in_brackets() -> None:
    place = NodePlace("::1", "::1", "/d", ("[::1]:9093",))
    assert node_overrides(layout(), 0, Role.BROKER, place)["listeners"] == "INTERNAL://[::1]:9091"


def test_a_new_listener_changes_brokers_and_not_controllers() -> None:
    assert layout().controller_properties == layout(listener()).controller_properties
    assert layout().broker_properties != layout(listener()).broker_properties


@pytest.mark.parametrize(
    ("name", "port", "words"),
    [
        pytest.param("EXTERNAL", 9095, "name EXTERNAL", id="the younger of two listeners with one name is left out"),
        pytest.param("OTHER", 9094, "port 9094", id="the younger of two listeners with one port is left out"),
    ],
)
def test_listeners_that_clash(name: str, port: int, words: str) -> None:
    old = another("z-old", "EXTERNAL", 9094, created="2025-01-01T00:00:00Z")
    made = layout(another("a-new", name, port), old)
    assert [port.resource for port in made.listeners] == [None, "z-old"]
    (clash,) = made.clashes
    assert clash.resource == "a-new"
    assert words in clash.message


def test_listeners_of_other_clusters_are_left_out() -> None:
    assert [port.name for port in layout(another("x", "OTHER", 9095, "bank")).listeners] == ["INTERNAL"]


def test_the_cluster_id_has_kafkas_form_and_follows_the_uid() -> None:
    document = cluster() | {"metadata": {"name": "shop", "uid": "6264ce5a-f913-40b0-85d0-94474e8cc1d2"}}
    of = parse_resource(document)
    assert isinstance(of, BrokerCluster)
    assert plan_cluster(of, []).cluster_id == "YmTOWvkTQLCF0JRHTozB0g"
    assert len(layout().cluster_id) == 22
    assert layout().cluster_id == layout(listener()).cluster_id


def test_a_cluster_elsewhere_has_no_layout() -> None:
    of = BrokerCluster.model_validate_json(json.dumps(external()))
    with pytest.raises(ValueError, match="has runtime External"):
        plan_cluster(of, [])


@pytest.mark.parametrize(
    ("config", "expected_s"),
    [
        ({}, 3.0),
        ({"broker.session.timeout.ms": "30000"}, 10.0),
        ({"broker.session.timeout.ms": "6000"}, 3.0),
        ({"broker.session.timeout.ms": "6000", "broker.heartbeat.interval.ms": "500"}, 2.0),
    ],
    ids=["Kafka's own", "a longer session", "never less than a heartbeat takes", "both shorter"],
)
def test_how_long_a_broker_may_be_silent_in_a_roll(config: dict[str, str], expected_s: float) -> None:
    of = parse_resource(cluster(config=config))
    assert isinstance(of, BrokerCluster)
    assert silence_max_s(of) == expected_s
