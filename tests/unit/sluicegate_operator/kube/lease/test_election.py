"""The allowed holder of the Lease, as a table; times are seconds of our own clock."""

from typing import Any

import pytest

from sluicegate_operator.kube.lease.election import (
    Create,
    Decision,
    ObservedLease,
    Renew,
    TakeOver,
    WaitForLease,
    decide,
    held_lease,
    observe,
    released_lease,
)

NOW_S = 1000.0


def lease(holder: str | None, duration_s: int | None = 15, renewed: str = "t1") -> dict[str, Any]:
    spec: dict[str, Any] = {"renewTime": renewed}
    if holder is not None:
        spec["holderIdentity"] = holder
    if duration_s is not None:
        spec["leaseDurationSeconds"] = duration_s
    return {"metadata": {"name": "l", "resourceVersion": "7"}, "spec": spec}


@pytest.mark.parametrize(
    ("found", "seen_ago_s", "expected"),
    [
        (None, 0, Create()),
        (lease("me"), 0, Renew()),
        (lease("me"), 3600, Renew()),
        (lease(None), 0, TakeOver("")),
        (lease(""), 0, TakeOver("")),
        ({"metadata": {}}, 0, TakeOver("")),
        (lease("other"), 0, WaitForLease("other", NOW_S + 15)),
        (lease("other"), 14.9, WaitForLease("other", NOW_S - 14.9 + 15)),
        (lease("other"), 15, TakeOver("other")),
        (lease("other", duration_s=60), 15, WaitForLease("other", NOW_S + 45)),
        (lease("other", duration_s=None), 0, TakeOver("other")),
    ],
)
def test_decision(found: dict[str, Any] | None, seen_ago_s: float, expected: Decision) -> None:
    observed = None if found is None else ObservedLease(found.get("spec") or {}, NOW_S - seen_ago_s)
    assert decide(found, "me", NOW_S, observed) == expected


def test_a_renewal_restarts_the_wait_whatever_its_timestamp() -> None:
    first = observe(None, lease("other", renewed="1970-01-01"), 0)
    assert decide(lease("other", renewed="1970-01-01"), "me", 14, first) == WaitForLease("other", 15)
    again = observe(first, lease("other", renewed="1969-01-01"), 14)
    assert decide(lease("other", renewed="1969-01-01"), "me", 15, again) == WaitForLease("other", 29)


def test_a_write_that_is_no_renewal_does_not_prolong_it() -> None:
    first = observe(None, lease("other"), 0)
    touched = lease("other") | {"metadata": {"name": "l", "resourceVersion": "8", "labels": {"a": "b"}}}
    assert decide(touched, "me", 15, observe(first, touched, 14)) == TakeOver("other")


def test_transitions_count_changes_of_the_holder() -> None:
    ours = held_lease({"metadata": {}}, "me", 15, "t1")
    assert ours["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "t1",
        "renewTime": "t1",
        "leaseTransitions": 0,
    }
    assert held_lease(ours, "me", 15, "t2")["spec"] == ours["spec"] | {"renewTime": "t2"}
    theirs = held_lease(released_lease(ours, "t3"), "you", 15, "t4")
    assert theirs["spec"] == ours["spec"] | {
        "holderIdentity": "you",
        "acquireTime": "t4",
        "renewTime": "t4",
        "leaseTransitions": 1,
    }


def test_a_write_compares_and_swaps() -> None:
    assert held_lease(lease("me"), "me", 15, "t2")["metadata"]["resourceVersion"] == "7"
    assert released_lease(lease("me"), "t2")["metadata"]["resourceVersion"] == "7"
