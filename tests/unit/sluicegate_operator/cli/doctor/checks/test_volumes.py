"""Volume claims and StorageClasses."""

from typing import Any

import pytest

from sluicegate_operator.cli.doctor.checks.results import Outcome, Unread
from sluicegate_operator.cli.doctor.checks.volumes import class_names, unread_nodes, volume_results


def claim(phase: str | None = "Bound", of_class: str | None = "fast") -> dict[str, Any]:
    status = {} if phase is None else {"phase": phase}
    return {"metadata": {"name": "data-shop-brokers-0"}, "spec": {"storageClassName": of_class}, "status": status}


def outcomes(claims: Any, **classes: Any) -> list[tuple[Outcome, str]]:
    return [(one.outcome, one.sentence) for one in volume_results(claims, classes)]


def test_bound_claims_of_a_class_that_allows_expansion() -> None:
    assert outcomes([claim()], fast={"allowVolumeExpansion": True}) == [
        (Outcome.OK, "1 of 1 claims are bound"),
        (Outcome.OK, "StorageClass fast allows volumes to grow"),
    ]
    assert outcomes([]) == []
    assert class_names([claim(), claim(), claim(of_class=None)]) == ["fast"]


@pytest.mark.parametrize("phase", ["Pending", "Lost", None])
def test_a_claim_that_is_not_bound(phase: str | None) -> None:
    [one] = outcomes([claim(phase)])
    assert one == (
        Outcome.PROBLEM,
        f"claim data-shop-brokers-0 (StorageClass fast) is {phase or 'Pending'}, not Bound",
    )


@pytest.mark.parametrize(
    ("found", "outcome", "words"),
    [
        (None, Outcome.WARNING, "does not exist"),
        ({}, Outcome.WARNING, "does not allow volumes to grow"),
        (Unread("403"), Outcome.SKIPPED, "cannot be read: 403"),
    ],
)
def test_a_storage_class(found: Any, outcome: Outcome, words: str) -> None:
    [_, one] = outcomes([claim()], fast=found)
    assert (one[0], words in one[1]) == (outcome, True)


def test_claims_and_statistics_that_cannot_be_read() -> None:
    assert outcomes(Unread("403")) == [(Outcome.SKIPPED, "the volume claims cannot be listed: 403")]
    assert unread_nodes({"one": {}, "two": Unread("403")}) == "two: 403"
    assert unread_nodes({"one": {}}) == ""
