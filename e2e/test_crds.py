"""What the API server itself makes of the CRDs: established, explained, and refusing bad manifests with a sentence."""

import pytest

from e2e.cluster.control_plane import ControlPlane
from e2e.shop import KINDS


@pytest.mark.parametrize("plural", KINDS)
def test_a_crd_is_established_and_structural(plane: ControlPlane, plural: str) -> None:
    crd = plane.get("crd", f"{plural}.sluicegate.dev")
    conditions = {condition["type"]: condition["status"] for condition in crd["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert conditions["NamesAccepted"] == "True"
    assert "NonStructuralSchema" not in conditions
    [version] = crd["spec"]["versions"]
    assert version["subresources"] == {"status": {}}


@pytest.mark.parametrize(("short", "plural"), [("bc", KINDS[0]), ("bl", KINDS[1]), ("cq", KINDS[2]), ("kt", KINDS[3])])
def test_a_kind_has_a_short_name(plane: ControlPlane, short: str, plural: str) -> None:
    assert plane.get(short)["items"] == plane.get(f"{plural}.sluicegate.dev")["items"]


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
