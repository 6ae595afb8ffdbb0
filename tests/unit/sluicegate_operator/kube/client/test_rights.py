"""The chart grants exactly the rights that the operator uses: none is missing, and none is unused.

deploy/ is rendered from the chart. e2e/world/used_rights.py compares the table with what a run has used.
"""

from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from sluicegate_operator.kube.client.rights import CALLED, CALLED_OF_SPARK, HELD, Resource
from tests.support.oracles.rights import Rights, surplus

DEPLOY = Path(__file__).parents[5] / "deploy"
OPERATOR = ("sluicegate-operator", "sluicegate-operator-nodes", "sluicegate-operator-lease")
"""Roles that are bound to the operator's account."""
OF_THE_WHOLE_CLUSTER = (("", "nodes"), ("", "namespaces"))


def granted(file: str) -> Rights:
    found: dict[Resource, set[str]] = defaultdict(set)
    for document in yaml.safe_load_all((DEPLOY / file).read_text(encoding="utf-8")):
        if document["kind"] not in ("Role", "ClusterRole") or document["metadata"]["name"] not in OPERATOR:
            continue
        for rule in document["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    found[group, resource] |= set(rule["verbs"])
    return {resource: frozenset(verbs) for resource, verbs in found.items()}


def needed() -> Rights:
    found: dict[Resource, frozenset[str]] = {}
    for table in (CALLED, CALLED_OF_SPARK, HELD):
        for resource, verbs in table.items():
            found[resource] = found.get(resource, frozenset()) | verbs
    return found


@pytest.mark.parametrize("file", ["rbac.yaml", "namespaced/rbac.yaml"], ids=["every namespace", "one namespace"])
def test_the_operator_is_granted_exactly_the_rights_that_it_uses(file: str) -> None:
    wanted = dict(needed())
    if file.startswith("namespaced"):
        for resource in OF_THE_WHOLE_CLUSTER:
            del wanted[resource]
    assert surplus(wanted, granted(file)) == [], "not granted"
    assert surplus(granted(file), wanted) == [], "granted, and nobody asks for it"


def test_no_role_may_change_pod_specs_or_read_secrets() -> None:
    rights = granted("rbac.yaml")
    assert ("", "secrets") not in rights
    assert not rights["", "pods"] & {"create", "update", "patch"}
    assert not {resource for resource, verbs in rights.items() if verbs & {"*", "deletecollection", "escalate", "bind"}}


def test_rights_marked_as_only_held_are_not_used() -> None:
    assert all(not verbs & CALLED.get(resource, frozenset()) for resource, verbs in HELD.items())
