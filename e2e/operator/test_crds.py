"""The API server's handling of the CRDs: established, explained, and refusals of bad manifests with a message."""

from pathlib import Path

import pytest

from e2e.cluster.control_plane import ControlPlane
from e2e.world.shop import KINDS
from tests.support.obtain.oldest_api_server import lacking_functions, refusals
from tests.support.oracles.cel_functions import FUNCTIONS

ROOT = Path(__file__).resolve().parents[2]

SHORT_NAMES = {
    "auditpipelines": "ap",
    "brokerclusters": "bc",
    "brokerlisteners": "bl",
    "brokerregistrations": "br",
    "connectionquotas": "cq",
    "kafkausers": "usr",
    "observerplugins": "op",
    "topics": "tp",
}


@pytest.mark.parametrize("plural", KINDS)
def test_a_crd_is_established_and_structural(plane: ControlPlane, plural: str) -> None:
    crd = plane.get("crd", f"{plural}.sluicegate.dev")
    conditions = {condition["type"]: condition["status"] for condition in crd["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert conditions["NamesAccepted"] == "True"
    assert "NonStructuralSchema" not in conditions
    [version] = crd["spec"]["versions"]
    assert version["subresources"].keys() - {"scale"} == {"status"}


def test_every_kind_has_its_short_name(plane: ControlPlane) -> None:
    assert SHORT_NAMES.keys() == set(KINDS)
    for plural, short in SHORT_NAMES.items():
        # Independent of existing objects and of their changes.
        assert plane.kubectl("explain", short) == plane.kubectl("explain", f"{plural}.sluicegate.dev")


def test_explain_describes_every_target(plane: ControlPlane) -> None:
    text = plane.kubectl("explain", "connectionquota.spec.target")
    for field in ("broker", "listener", "ip", "defaultIp"):
        assert f"{field}\t" in text
    assert "One IPv4 or IPv6 address of clients." in " ".join(text.split())
    assert "<no description>" not in text


@pytest.mark.parametrize("plural", KINDS)
@pytest.mark.parametrize("part", ["spec", "status"])
def test_no_field_is_without_a_description(plane: ControlPlane, plural: str, part: str) -> None:
    assert "<no description>" not in plane.kubectl("explain", f"{plural}.{part}")


def test_the_oldest_api_server_accepts_the_crds() -> None:
    assert refusals(sorted((ROOT / "crds").glob("*.yaml"))) == []


def test_the_oldest_api_server_has_the_functions_that_rules_may_call() -> None:
    assert lacking_functions(FUNCTIONS) == []
    assert lacking_functions({"isIP", "noSuchFunction"}) == ["noSuchFunction"]


def test_a_rule_that_the_oldest_api_server_refuses_is_found(tmp_path: Path) -> None:
    text = (ROOT / "crds" / "sluicegate.dev_connectionquotas.yaml").read_text(encoding="utf-8")
    # Cases that newer API servers accept: they have the function, or estimate a lower cost.
    for old, new, why in (
        ("isIP(self.ip)", "isSemver(self.ip)", "undeclared reference to 'isSemver'"),
        ("in [cidr(self.cidr)]", "== cidr(self.cidr)", "cost exceeds budget"),
    ):
        changed = tmp_path / "changed.yaml"
        assert old in text
        changed.write_text(text.replace(old, new), encoding="utf-8")
        assert any(why in refusal for refusal in refusals([changed]))
