"""The sentence about an operator that does not renew its Lease."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sluicegate_operator.planning.registrations.operator_lease import operator_silence

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def lease(age_s: float, holder: str = "one", namespace: str = "sluicegate") -> dict[str, Any]:
    renewed = (NOW - timedelta(seconds=age_s)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}
    return {"metadata": {"name": "sluicegate-operator", "namespace": namespace}, "spec": spec}


@pytest.mark.parametrize(
    "leases",
    [
        [],
        [lease(4)],
        # Clocks may differ.
        [lease(44)],
        # One live operator is enough: nothing here shows which operator has the namespace.
        [lease(500), lease(4, namespace="other")],
        [{"metadata": {"name": "sluicegate-operator", "namespace": "sluicegate"}}],
        [{"metadata": {"name": "sluicegate-operator", "namespace": "sluicegate"}, "spec": {"renewTime": "soon"}}],
    ],
)
def test_no_silence_is_reported_while_an_operator_may_be_running(leases: list[dict[str, Any]]) -> None:
    assert operator_silence(leases, NOW) == ""


@pytest.mark.parametrize("holder", ["one", ""])
def test_an_operator_that_is_silent_is_named_by_its_lease(holder: str) -> None:
    said = operator_silence([lease(94, holder), lease(9000)], NOW)
    assert said.startswith("the operator has not renewed its Lease sluicegate/sluicegate-operator for 94 s: it is not")
    assert "Statuses are outdated" in said
