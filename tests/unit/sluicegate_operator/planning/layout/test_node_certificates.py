"""TLS between nodes: properties that brokers and controllers accept, files of their pods, and super users."""

from collections.abc import Mapping
from typing import Any

import pytest

from broker_runtime.config import SecurityProtocol, broker_settings, parse_properties
from broker_runtime.node.tls.tls_settings_of import tls_settings_of
from broker_runtime.security.tls.tls_settings import TlsSettings
from sluicegate_operator.api import BrokerCluster, BrokerListener, parse_resource
from sluicegate_operator.planning.layout.children import cluster_children
from sluicegate_operator.planning.layout.cluster_layout import NodePlace, Role, node_overrides, plan_cluster
from sluicegate_operator.planning.layout.node_certificates import certificate_names, node_principals
from sluicegate_operator.resources.properties import render_properties
from tests.support.manifests.bad_manifests import cluster, listener

PLACE = NodePlace("10.1.2.3", "10.1.2.3", "/data", ("shop-controllers-0:9093",))
AUTHORIZED = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
FOLDER = "/etc/sluicegate-listeners/internal"


def shop(**spec: Any) -> BrokerCluster:
    found = parse_resource(cluster(**{"clusterCa": {}, **spec}))
    assert isinstance(found, BrokerCluster)
    return found


def external() -> BrokerListener:
    found = parse_resource(listener())
    assert isinstance(found, BrokerListener)
    return found


def properties(of: BrokerCluster, role: Role) -> dict[str, str]:
    planned = plan_cluster(of, [external()])
    node_id = planned.node_ids(role)[0]
    return {**planned.properties(role), **node_overrides(planned, node_id, role, PLACE)}


def tls_of(values: Mapping[str, str], name: str) -> TlsSettings:
    settings = broker_settings(parse_properties(render_properties(values), "a test"))
    return tls_settings_of(settings.values, name, SecurityProtocol.SSL)


@pytest.mark.parametrize("role", Role)
def test_the_listeners_of_nodes_have_tls_with_certificates_on_both_sides(role: Role) -> None:
    found = properties(shop(), role)
    expected = {
        Role.BROKER: "CONTROLLER:SSL,INTERNAL:SSL,EXTERNAL:PLAINTEXT",
        Role.CONTROLLER: "CONTROLLER:SSL",
    }
    assert found["listener.security.protocol.map"] == expected[role]
    names = {"CONTROLLER": "shop-controllers.default.svc"}
    names |= {"INTERNAL": "shop-brokers.default.svc"} if role is Role.BROKER else {}
    for name, server in names.items():
        tls = tls_of(found, name)
        assert (tls.client_auth, tls.check_names, tls.server_name) == ("required", True, server)
        assert tls.keys.location == f"{FOLDER}/keystore.pem"
        assert tls.trust.location == f"{FOLDER}/truststore.pem"
        assert server in certificate_names(shop())


def test_nodes_and_operator_are_super_users_beside_those_of_the_user() -> None:
    nodes, operator = node_principals(shop())
    assert (nodes, operator) == (
        "User:CN=shop-nodes,OU=default,O=sluicegate.dev",
        "User:CN=shop-operator,OU=default,O=sluicegate.dev",
    )
    of_user = shop(config={**AUTHORIZED, "super.users": "User:admin;"})
    for role in Role:
        assert properties(shop(config=AUTHORIZED), role)["super.users"] == f"{nodes};{operator}"
        assert properties(of_user, role)["super.users"] == f"User:admin;{nodes};{operator}"
        assert "super.users" not in properties(shop(), role)


def test_all_pods_mount_the_stores_and_none_the_keys_of_operator_and_authority() -> None:
    sets = [child for child in cluster_children(shop(), [external()]) if child["kind"] == "StatefulSet"]
    assert len(sets) == 2
    for found in sets:
        spec = found["spec"]["template"]["spec"]
        [volume] = [one for one in spec["volumes"] if "projected" in one]
        [source] = volume["projected"]["sources"]
        assert source["secret"]["name"] == "shop-cluster-tls"
        assert [item["key"] for item in source["secret"]["items"]] == ["keystore.pem", "truststore.pem"]
        mounts = spec["containers"][0]["volumeMounts"]
        assert [one["mountPath"] for one in mounts if one["name"] == volume["name"]] == [FOLDER]


def test_without_an_authority_nothing_changes() -> None:
    plain = properties(shop(clusterCa=None), Role.BROKER)
    assert plain["listener.security.protocol.map"] == "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT"
    assert not [key for key in plain if "ssl." in key or "tls." in key]
