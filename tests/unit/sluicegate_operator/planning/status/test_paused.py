"""The status of an object whose cluster is paused."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sluicegate_operator.api import ConnectionQuota, parse_resource
from sluicegate_operator.planning.status.paused import paused_status
from tests.support.manifests.bad_manifests import quota

THEN, NOW = "2026-11-22T12:00:00Z", datetime(2026, 11, 22, 13, tzinfo=UTC)


def condition(type_: str, status: str, reason: str, generation: int = 2) -> dict[str, Any]:
    named = {"type": type_, "status": status, "reason": reason, "message": "as it was"}
    return {**named, "lastTransitionTime": THEN, "observedGeneration": generation}


def of(**status: Any) -> ConnectionQuota:
    document = quota()
    found = parse_resource({**document, "metadata": {**document["metadata"], "generation": 2}, "status": status})
    assert isinstance(found, ConnectionQuota)
    return found


@pytest.mark.parametrize(("generation", "ready", "observed"), [(2, "True", 2), (1, "False", 1)])
def test_what_was_applied_before_the_pause_stays_ready(generation: int, ready: str, observed: int) -> None:
    one = of(observedGeneration=generation, conditions=[condition("Ready", "True", "Enforced", generation)])
    found = paused_status(one, one.status, NOW)
    assert [(c.type, c.status, c.reason) for c in found.conditions] == [
        ("Ready", ready, "Paused"),
        ("Reconciling", str(ready == "False"), "Paused"),
        ("Stalled", "False", "Paused"),
    ]
    assert found.observed_generation == observed
    assert paused_status(one.model_copy(update={"status": found}), found, NOW) == found


def test_other_conditions_and_what_is_known_stay() -> None:
    enforced, missing = condition("Enforced", "True", "Enforced"), condition("TargetFound", "False", "ClusterMissing")
    one = of(brokers="3/3", conditions=[enforced, missing])
    found = paused_status(one, one.status, NOW, {"target": "IP 10.0.0.1"})
    assert (found.brokers, found.target) == ("3/3", "IP 10.0.0.1")
    assert found.condition("Enforced") == one.status.condition("Enforced")
    target_found = found.condition("TargetFound")
    assert target_found is not None
    assert (target_found.status, target_found.reason) == ("Unknown", "Paused")
