"""One version of Kubernetes is the oldest supported one, everywhere; the rules of the CRDs need nothing newer."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluicegate_operator.api.crd import KUBERNETES_MIN, definition
from sluicegate_operator.api.kinds import KINDS
from tests.support.obtain.oldest_api_server import SOURCE
from tests.support.oracles.cel_functions import FUNCTIONS, MACROS, called

ROOT = Path(__file__).resolve().parents[4]
_MINOR = int(KUBERNETES_MIN.partition(".")[2])
_SAYS_A_VERSION = re.compile(r"Kubernetes (1[.][0-9]+)(?:[.][0-9]+)? (?:or|and) (?:newer|later)")


def rules(node: dict[str, Any]) -> Iterator[str]:
    for rule in node.get("x-kubernetes-validations", ()):
        yield rule["rule"]
        yield rule.get("messageExpression", "")
    for child in node.get("properties", {}).values():
        yield from rules(child)
    for key in ("items", "additionalProperties"):
        if key in node:
            yield from rules(node[key])


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_rules_call_only_functions_of_the_oldest_api_server(kind: str) -> None:
    [version] = definition(kind)["spec"]["versions"]
    found = set().union(*map(called, rules(version["schema"]["openAPIV3Schema"])))
    assert found <= FUNCTIONS | MACROS


def test_a_call_is_found_and_a_text_is_none() -> None:
    assert called("!has(self.a) || semver(self.a).major( ) > 1 && self.b == 'isIP(x)' || \"a(\" == self.c") == {
        "has",
        "semver",
        "major",
    }


def test_the_chart_asks_for_the_oldest_version() -> None:
    chart = yaml.safe_load((ROOT / "charts/sluicegate/Chart.yaml").read_text(encoding="utf-8"))
    assert chart["kubeVersion"] == f">={KUBERNETES_MIN}.0-0"


@pytest.mark.parametrize("page", ["README.md", "charts/sluicegate/README.md", "docs/reference/resources.md"])
def test_a_page_names_the_oldest_version(page: str) -> None:
    assert _SAYS_A_VERSION.findall((ROOT / page).read_text(encoding="utf-8")) == [KUBERNETES_MIN]


def test_rules_are_checked_by_the_code_of_the_oldest_version() -> None:
    module = (SOURCE / "go.mod").read_text(encoding="utf-8")
    required = re.findall(r"^\tk8s[.]io/(?:apiextensions-apiserver|apimachinery|apiserver) v0[.]([0-9]+)", module, re.M)
    assert required == [str(_MINOR)] * 3
