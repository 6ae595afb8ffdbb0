"""The Lease of the active controller as the API server returns it, also after another client has changed it."""

from typing import Any

import pytest

from broker_runtime.controller.journal.kube_store import lease_record

DURATION = "sluicegate.dev/lease-duration-ms"


def lease(annotations: dict[str, str] | None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": "7", "annotations": annotations}, "spec": spec}


@pytest.mark.parametrize("told", ["abc", "", "-1", "0", "1.5", "9000000", "9" * 5000, "\u0663"])
def test_a_duration_that_another_client_has_written_is_ignored_unless_the_lease_may_have_it(told: str) -> None:
    """The holder writes its own again with the next renewal. Longer than the spec's, the Lease would not be taken."""
    assert lease_record(lease({DURATION: told}, leaseDurationSeconds=3)).duration_ms == 3000


def test_a_lease_is_read_with_what_it_has() -> None:
    found = lease_record(lease({DURATION: "2500"}, holderIdentity="1_a", leaseDurationSeconds=3, leaseTransitions=4))
    assert (found.holder, found.duration_ms, found.transitions, found.version) == ("1_a", 2500, 4, "7")
    bare = lease_record(lease(None))
    assert (bare.holder, bare.duration_ms, bare.transitions, bare.address) == ("", 1000, 0, "")
