"""What NetworkPolicies allow, as tables of rules and connections."""

from typing import Any

import pytest

from sluicegate_operator.cli.doctor.checks.network_rules import Allowed, Direction, PodSeen, Port, allows, selects

Json = dict[str, Any]
YES, NO, UNKNOWN = Allowed.YES, Allowed.NO, Allowed.UNKNOWN

BROKER = PodSeen("shop-brokers-0", "kafka", {"role": "broker", "index": "0"}, {"team": "shop"}, {"kafka": 9094})
CONTROLLER = PodSeen("shop-controllers-0", "kafka", {"role": "controller"}, {"team": "shop"})
OPERATOR = PodSeen("operator", "sluicegate-system", {"app": "operator"})
"""A pod of a namespace whose labels are unknown."""
PORT = Port(9094, names={"kafka": 9094})
PLAIN = Port(9093)


def policy(spec: Json, namespace: str = "kafka") -> Json:
    return {"metadata": {"name": "a-policy", "namespace": namespace}, "spec": {"podSelector": {}, **spec}}


def ingress(*rules: Json, **more: Any) -> Json:
    return policy({"policyTypes": ["Ingress"], "ingress": list(rules), **more})


def port(number: int | str, **more: Any) -> Json:
    return {"ports": [{"port": number, "protocol": "TCP", **more}]}


def of(**peer: Any) -> Json:
    return {"from": [peer]}


IN_BROKERS = {"podSelector": {"matchLabels": {"role": "broker"}}}


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ([], YES),
        # Policies that select the pod neither here nor in this direction.
        ([ingress(podSelector={"matchLabels": {"role": "controller"}})], YES),
        ([policy({"policyTypes": ["Ingress"]}, namespace="other")], YES),
        ([policy({"policyTypes": ["Egress"]})], YES),
        # An isolated pod has only the connections of a rule, of any policy.
        ([ingress()], NO),
        ([policy({})], NO),
        ([ingress({})], YES),
        ([ingress(), ingress({})], YES),
        ([ingress(port(9093))], NO),
        ([ingress(port(9093), port(9094))], YES),
        ([ingress(port(9000, endPort=9100))], YES),
        ([ingress(port(9000, endPort=9093))], NO),
        ([ingress(port(9094, protocol="UDP"))], NO),
        ([ingress({"ports": [{"protocol": "TCP"}]})], YES),
        ([ingress({"ports": [{"port": 9094}]})], YES),
        ([ingress(port("kafka"))], YES),
        ([ingress(port("http"))], NO),
        # Peers.
        ([ingress(of(podSelector={"matchLabels": {"role": "controller"}}))], YES),
        ([ingress(of(podSelector={"matchLabels": {"role": "broker"}}))], NO),
        ([ingress(of(podSelector={}))], YES),
        ([ingress(of(namespaceSelector={}))], YES),
        ([ingress(of(namespaceSelector={"matchLabels": {"team": "shop"}}))], YES),
        ([ingress(of(namespaceSelector={"matchLabels": {"team": "web"}}))], NO),
        ([ingress(of(namespaceSelector={}, podSelector={"matchLabels": {"role": "broker"}}))], NO),
        ([ingress(of(ipBlock={"cidr": "10.0.0.0/8"}))], UNKNOWN),
        ([ingress(of(ipBlock={"cidr": "0.0.0.0/0"}))], YES),
        ([ingress(of(ipBlock={"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}))], UNKNOWN),
        ([ingress(of(ipBlock={"cidr": "10.0.0.0/8"}), {})], YES),
        ([ingress(of(ipBlock={"cidr": "10.0.0.0/8"}) | port(9093))], NO),
        ([ingress({"from": [], "ports": []})], YES),
    ],
)
def test_a_connection_from_a_controller_to_a_broker(policies: list[Json], expected: Allowed) -> None:
    assert allows(policies, BROKER, Direction.INGRESS, CONTROLLER, PORT) is expected


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ({"podSelector": {}}, NO),
        ({"podSelector": {"matchLabels": {"app": "operator"}}}, NO),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "sluicegate-system"}}}, YES),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kafka"}}}, NO),
        ({"namespaceSelector": {"matchLabels": {"team": "platform"}}}, UNKNOWN),
        ({"namespaceSelector": {"matchLabels": {"team": "platform"}}, "podSelector": {"matchLabels": {"x": "y"}}}, NO),
        ({"namespaceSelector": {}}, YES),
    ],
)
def test_a_peer_of_another_namespace_whose_labels_are_unknown(peer: Json, expected: Allowed) -> None:
    assert allows([ingress(of(**peer))], BROKER, Direction.INGRESS, OPERATOR, PORT) is expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"policyTypes": ["Ingress", "Egress"]}, NO),
        ({"egress": [{"to": [IN_BROKERS]}]}, NO),
        ({"egress": [{"to": [{"podSelector": {"matchLabels": {"role": "controller"}}}], **port(9093)}]}, YES),
        ({"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]}, UNKNOWN),
        ({"ingress": [{}]}, YES),
    ],
)
def test_a_connection_that_a_broker_opens(spec: Json, expected: Allowed) -> None:
    assert allows([policy(spec)], BROKER, Direction.EGRESS, CONTROLLER, PLAIN) is expected


@pytest.mark.parametrize(
    ("rule", "expected"), [(of(ipBlock={"cidr": "10.0.0.0/8"}), YES), (of(podSelector={}), YES), (port(9093), NO)]
)
def test_without_a_peer_a_rule_for_any_peer_counts(rule: Json, expected: Allowed) -> None:
    assert allows([ingress(rule)], BROKER, Direction.INGRESS, None, PORT) is expected


@pytest.mark.parametrize(("name", "expected"), [("dns", UNKNOWN), (53, YES), (54, NO)])
def test_a_named_port_of_an_unknown_pod_is_unknown(name: int | str, expected: Allowed) -> None:
    rule = {"egress": [{"ports": [{"port": name, "protocol": "UDP"}]}]}
    assert allows([policy(rule)], BROKER, Direction.EGRESS, None, Port(53, "UDP", names=None)) is expected


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ["broker", "web"], YES),
        ("In", ["web"], NO),
        ("NotIn", ["web"], YES),
        ("NotIn", ["broker"], NO),
        ("Exists", [], YES),
        ("DoesNotExist", [], NO),
        ("Resembles", ["x"], UNKNOWN),
    ],
)
def test_expressions_of_selectors(operator: str, values: list[str], expected: Allowed) -> None:
    selector = {"matchExpressions": [{"key": "role", "operator": operator, "values": values}]}
    assert selects(selector, BROKER.labels) is expected


@pytest.mark.parametrize(("operator", "expected"), [("In", NO), ("NotIn", YES), ("Exists", NO), ("DoesNotExist", YES)])
def test_expressions_about_a_missing_label(operator: str, expected: Allowed) -> None:
    selector = {"matchExpressions": [{"key": "zone", "operator": operator, "values": ["a"]}]}
    assert selects(selector, BROKER.labels) is expected
