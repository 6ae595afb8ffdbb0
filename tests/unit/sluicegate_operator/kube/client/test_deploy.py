"""The manifests in deploy/ parse, and the two variants grant and run the same."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.resources.controller_role import journal_rights

DEPLOY = Path(__file__).parents[5] / "deploy"
FILES = sorted(file for file in DEPLOY.rglob("*.yaml") if file.name != "kustomization.yaml")


def documents(*names: str) -> list[dict[str, Any]]:
    return [document for name in names for document in yaml.safe_load_all((DEPLOY / name).read_text())]


def of_kind(kind: str, *names: str) -> list[dict[str, Any]]:
    return [document for document in documents(*names) if document["kind"] == kind]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(DEPLOY)))
def test_every_document_names_what_it_is(file: Path) -> None:
    found = documents(str(file.relative_to(DEPLOY)))
    assert found
    assert all(document["apiVersion"] and document["kind"] and document["metadata"]["name"] for document in found)


def test_no_rule_grants_everything() -> None:
    roles = [*of_kind("ClusterRole", "rbac.yaml"), *of_kind("Role", "rbac.yaml", "namespaced/rbac.yaml")]
    rules = [rule for role in roles for rule in role["rules"]]
    assert len(rules) > 10
    assert not [rule for rule in rules if "*" in (*rule["apiGroups"], *rule["resources"], *rule["verbs"])]
    assert not [rule for rule in rules if {"secrets", "clusterroles"} & set(rule["resources"])]
    assert [rule["verbs"] for rule in rules if "nodes" in rule["resources"]] == [["get"]], "labels of racks, no more"


def test_the_operator_has_all_rights_that_it_grants_to_controllers() -> None:
    """Otherwise the API server refuses the Role of controllers that share a journal."""
    own = of_kind("ClusterRole", "rbac.yaml")[0]["rules"]
    cluster = BrokerCluster.model_validate(
        {
            "metadata": {"name": "shop"},
            "spec": {"brokers": {"replicas": 3, "storage": {"size": "1Gi"}}, "controllers": {"replicas": 3}},
        }
    )
    [role] = [child for child in journal_rights(cluster) if child["kind"] == "Role"]
    for granted in role["rules"]:
        for resource in granted["resources"]:
            verbs = {verb for rule in own if resource in rule["resources"] for verb in rule["verbs"]}
            assert set(granted["verbs"]) <= verbs, resource


def test_both_variants_grant_the_same_but_for_namespaces() -> None:
    rules = of_kind("ClusterRole", "rbac.yaml")[0]["rules"]
    everywhere = [rule for rule in rules if rule["resources"] != ["namespaces"]]
    lease = of_kind("Role", "rbac.yaml")[0]["rules"]
    assert of_kind("Role", "namespaced/rbac.yaml")[0]["rules"] == everywhere + lease


def test_the_namespaced_variant_has_nothing_of_the_whole_cluster() -> None:
    kinds = {document["kind"] for document in documents("namespaced/rbac.yaml", "namespaced/operator.yaml")}
    assert kinds == {"ServiceAccount", "Role", "RoleBinding", "Service", "NetworkPolicy", "Deployment"}


def test_both_deployments_differ_in_what_they_watch_only() -> None:
    everywhere, one = (of_kind("Deployment", name)[0] for name in ("operator.yaml", "namespaced/operator.yaml"))
    assert everywhere["metadata"].pop("namespace") == "sluicegate-system"
    containers = [deployment["spec"]["template"]["spec"]["containers"][0] for deployment in (everywhere, one)]
    arguments = [container.pop("args") for container in containers]
    assert arguments[0] == ["--all-namespaces", *arguments[1][2:]]
    assert arguments[1][:2] == ["--namespace", "$(POD_NAMESPACE)"]
    assert everywhere == one
