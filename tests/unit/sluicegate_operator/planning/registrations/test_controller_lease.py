"""The holder of the Lease of a cluster's controllers, and whether its process has ended."""

from typing import Any
from uuid import UUID

import pytest

from sluicegate_operator.planning.registrations.controller_lease import (
    ADDRESS,
    JOURNAL_LABEL,
    LeaseHolder,
    lease_holder,
    why_holder_gone,
)
from sluicegate_operator.planning.registrations.fencing import BrokerPod, ContainerEnd

BEGAN_MS = 1_800_000_000_500
INCARNATION = UUID(int=BEGAN_MS << 80 | 7 << 76 | 2 << 62 | 1)
POD = BrokerPod("shop-controllers-1", 1001, "10.0.0.1")
HOLDER = LeaseHolder(1001, "10.0.0.1", BEGAN_MS)


def lease(identity: str, address: str = "10.0.0.1:9093", label: str = "shop-journal") -> dict[str, Any]:
    meta = {"name": "shop-journal", "labels": {JOURNAL_LABEL: label}, "annotations": {ADDRESS: address}}
    return {"metadata": meta, "spec": {"holderIdentity": identity}}


def nothing_but(label: str) -> dict[str, Any]:
    return {"metadata": {"name": "a", "labels": {label: "a"}}, "spec": {"holderIdentity": "7_x"}}


@pytest.mark.parametrize(
    ("found", "holder"),
    [
        (lease(f"1001_{INCARNATION}"), HOLDER),
        (lease(f"1001_{INCARNATION}", "[fd00::1]:9093"), LeaseHolder(1001, "fd00::1", BEGAN_MS)),
        # Of an earlier version.
        (lease("1001_4cf186ee", ""), LeaseHolder(1001)),
        (
            {"metadata": {"name": "a", "labels": {JOURNAL_LABEL: "a"}}, "spec": {"holderIdentity": "7_x"}},
            LeaseHolder(7),
        ),
        (lease(""), None),
        (lease("somebody"), None),
        (lease("1001_4cf186ee", label="another"), None),
        (nothing_but("another label"), None),
    ],
)
def test_lease_holder_returns_the_holder_of_a_lease(found: dict[str, Any], holder: LeaseHolder | None) -> None:
    assert lease_holder(found) == holder


@pytest.mark.parametrize(
    ("holder", "pod", "why"),
    [
        (HOLDER, POD, ""),
        (HOLDER, None, "the pod of controller 1001 does not exist any more"),
        (HOLDER, BrokerPod(POD.name, 1001, "10.0.0.2"), "10.0.0.1 was replaced by shop-controllers-1"),
        # Its kubelet has not reported an address yet, or the Lease names none.
        (HOLDER, BrokerPod(POD.name, 1001), ""),
        (LeaseHolder(1001), POD, ""),
        (HOLDER, BrokerPod(POD.name, 1001, "10.0.0.1", ended=ContainerEnd(BEGAN_MS + 1, "OOMKilled")), "OOMKilled"),
        # It began after that end, or its start is unknown.
        (HOLDER, BrokerPod(POD.name, 1001, "10.0.0.1", ended=ContainerEnd(BEGAN_MS, "Error")), ""),
        (LeaseHolder(1001), BrokerPod(POD.name, 1001, "10.0.0.1", ended=ContainerEnd(BEGAN_MS, "Error")), ""),
        # A lost node may only be cut off: the Lease expires.
        (HOLDER, BrokerPod(POD.name, 1001, "10.0.0.1", node_lost=True, deleting=True), ""),
    ],
)
def test_whether_its_process_has_ended(holder: LeaseHolder, pod: BrokerPod | None, why: str) -> None:
    found = why_holder_gone(holder, pod)
    assert why in found
    assert bool(found) is bool(why)
