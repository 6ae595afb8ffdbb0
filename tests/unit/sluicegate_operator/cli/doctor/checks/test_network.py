"""The connections that a cluster needs, beside the NetworkPolicies of its namespace."""

from dataclasses import replace
from typing import Any

import pytest

from sluicegate_operator.api.manifests import read_stored
from sluicegate_operator.cli.doctor.checks.network import ClusterPods, network_results
from sluicegate_operator.cli.doctor.checks.network_rules import PodSeen
from sluicegate_operator.cli.doctor.checks.results import CheckResult, Outcome
from sluicegate_operator.resources.labels import MANAGER, selector
from sluicegate_operator.resources.network_policy import OpenPorts, network_policy
from tests.support.manifests.bad_manifests import cluster as cluster_document

Json = dict[str, Any]
NAMESPACE, OPERATORS = "kafka", "sluicegate-system"


def pod(name: str, role: str) -> PodSeen:
    return PodSeen(name, NAMESPACE, selector("shop", role), {})


OPERATOR = PodSeen("sluicegate-operator", OPERATORS, {"app.kubernetes.io/name": MANAGER})
SHOP = ClusterPods(
    "shop",
    [pod("shop-brokers-0", "broker"), pod("shop-brokers-1", "broker")],
    [pod("shop-controllers-0", "controller")],
    {"EXTERNAL": 9094},
    OPERATOR,
)


def policy(name: str, **spec: Any) -> Json:
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"podSelector": {}, **spec}}


def own() -> list[Json]:
    """The policies that the operator creates for the cluster."""
    cluster: Any = read_stored(cluster_document() | {"metadata": {"name": "shop", "namespace": NAMESPACE}})
    ports = (OpenPorts("broker", (9094, 9404), (9091,)), OpenPorts("controller", (9404,), (9093,)))
    return [network_policy(cluster, one, OPERATORS) for one in ports]


def results(*policies: Json, shop: ClusterPods = SHOP) -> list[CheckResult]:
    return list(network_results(policies, shop))


def problems(*policies: Json) -> list[str]:
    return [one.sentence for one in results(*policies) if one.outcome is Outcome.PROBLEM]


DENY_ALL = policy("deny-all", policyTypes=["Ingress"])


def test_without_policies_everything_is_open() -> None:
    [one] = results()
    assert (one.outcome, one.sentence) == (Outcome.OK, "no NetworkPolicy selects the pods of shop")
    assert results(shop=ClusterPods("shop", (), (), {}, None)) == []


def test_the_operators_own_policies_let_everything_through_also_beside_others() -> None:
    for policies in (own(), [*own(), DENY_ALL]):
        [one] = results(*policies)
        assert (one.outcome, "let nodes, the operator and clients of shop through" in one.sentence) == (
            Outcome.OK,
            True,
        )


def test_without_the_operators_pods_nothing_is_said_about_them() -> None:
    [one] = results(*own(), shop=replace(SHOP, operator=None))
    assert one.sentence.endswith("they let nodes and clients of shop through; the operator's pods are unknown")


def test_a_policy_that_denies_all_blocks_every_connection() -> None:
    assert problems(DENY_ALL) == [
        f"policy deny-all of {pods}: no Ingress rule lets {words} through"
        for pods, words in [
            ("shop-controllers-0", "brokers to controllers, port 9093"),
            ("shop-brokers-0, shop-brokers-1", "brokers to brokers, port 9091"),
            ("shop-controllers-0", "the operator to controllers, port 9093"),
            ("shop-controllers-0", "the operator to controllers, port 9404"),
            ("shop-brokers-0, shop-brokers-1", "the operator to brokers, port 9091"),
            ("shop-brokers-0, shop-brokers-1", "the operator to brokers, port 9404"),
            ("shop-brokers-0, shop-brokers-1", "clients to brokers (listener EXTERNAL), port 9094"),
        ]
    ]


def test_a_rule_for_one_namespace_shuts_the_operator_out() -> None:
    inside = policy("inside", policyTypes=["Ingress"], ingress=[{"from": [{"podSelector": {}}]}])
    found = problems(inside)
    assert len(found) == 4
    assert all("the operator to" in sentence for sentence in found)


def test_an_operator_in_another_namespace_than_the_policies_name_is_blocked() -> None:
    moved = PodSeen("sluicegate-operator", "operators", OPERATOR.labels)
    shop = ClusterPods("shop", SHOP.brokers, SHOP.controllers, SHOP.listeners, moved)
    bad = [one.sentence for one in results(*own(), shop=shop) if one.outcome is Outcome.PROBLEM]
    assert [sentence.rpartition(" lets ")[2] for sentence in bad] == [
        "the operator to controllers, port 9093 through",
        "the operator to brokers, port 9091 through",
    ]


@pytest.mark.parametrize("block", ["10.0.0.0/8", "192.168.0.0/16"])
def test_an_ip_block_cannot_be_judged(block: str) -> None:
    rule = {"from": [{"ipBlock": {"cidr": block}}]}
    found = results(policy("blocks", policyTypes=["Ingress"], ingress=[rule]))
    assert {one.outcome for one in found} == {Outcome.SKIPPED}
    assert "it cannot be told whether Ingress lets brokers to controllers, port 9093 through" in found[0].sentence


@pytest.mark.parametrize("dns_port", [53, 5353, "dns"])
def test_a_policy_without_egress_blocks_nodes_and_dns(dns_port: int | str) -> None:
    found = problems(policy("no-egress", policyTypes=["Egress"]))
    assert [sentence.partition(": ")[2] for sentence in found] == [
        "no Egress rule lets brokers to controllers, port 9093 through",
        "no Egress rule lets brokers to brokers, port 9091 through",
        "no Egress rule lets nodes to DNS, port 53 through",
    ]
    dns = {"ports": [{"port": dns_port, "protocol": "UDP"}]}
    nodes: Json = {"to": [{"podSelector": {}}]}
    assert problems(policy("some-egress", policyTypes=["Egress"], egress=[dns, nodes])) == []
