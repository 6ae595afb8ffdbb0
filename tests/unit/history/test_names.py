"""A name of a released version stays, until docs/reference/compatibility.md allows its end."""

import json
from pathlib import Path

import pytest

from tools.release.names import PLACE, public_names

ROOT = Path(__file__).parents[3]
RELEASED: dict[str, list[str]] = json.loads((ROOT / PLACE).read_text(encoding="utf-8"))
ENDED: dict[str, str] = {}
"""Names that have ended, with the release that deprecated them: it was at least two minor versions before."""


@pytest.fixture(scope="module")
def names() -> dict[str, list[str]]:
    return public_names(ROOT)


@pytest.mark.parametrize("kind", RELEASED)
def test_every_released_name_is_still_there(kind: str, names: dict[str, list[str]]) -> None:
    lost = set(RELEASED[kind]) - set(names[kind]) - ENDED.keys()
    assert not lost, (
        f"users rely on {sorted(lost)}: deprecate them first (docs/reference/compatibility.md); if no release has "
        f"them, remove them from {PLACE}"
    )


def test_each_kind_of_names_has_names(names: dict[str, list[str]]) -> None:
    assert names.keys() == RELEASED.keys()
    assert "status --context" in names["commands and options"]
    assert "BrokerCluster v1alpha1 spec.brokers.replicas" in names["fields of resources"]
    assert "image.repository" in names["values of the chart"]
    assert "broker max.connections" in names["configuration keys"]
    assert "request.seq int64" in names["columns of audit events"]
    assert all(len(found) > 30 for found in names.values())
