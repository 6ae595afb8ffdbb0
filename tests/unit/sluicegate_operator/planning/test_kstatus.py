"""kstatus reads every written status as intended, for every kind and every state."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluicegate_operator import planning
from sluicegate_operator.api.kinds import KINDS
from tests.support.manifests.bad_manifests import Json, cluster
from tests.support.oracles.kstatus import kstatus
from tests.support.worlds.shown_statuses import Shown, shown_statuses, unreadable, unseen

SHOWN = shown_statuses()
PLANNING = Path(planning.__path__[0])


def held(shown: Shown) -> dict[str, str]:
    return {one["type"]: one["status"] for one in shown.document["status"]["conditions"]}


def is_observed(shown: Shown) -> bool:
    return bool(shown.document["status"]["observedGeneration"] == shown.document["metadata"]["generation"])


def unlike(shown: Shown) -> str:
    """The verdict that kstatus should give and does not; empty if it is right."""
    found, verdict = held(shown), kstatus(shown.document)
    if found["Ready"] == "True":
        wanted = "Current"
    elif found["Stalled"] == "True":
        wanted = "Failed"
    else:
        wanted = "InProgress"
    return "" if verdict == wanted else f"{shown.kind} {shown.reason}: {verdict} instead of {wanted}"


def test_kstatus_reads_each_state_as_it_was_meant() -> None:
    assert {shown.kind for shown in SHOWN} == set(KINDS)
    assert [wrong for shown in SHOWN if (wrong := unlike(shown))] == []
    assert {kstatus(shown.document) for shown in SHOWN} == {"Current", "InProgress", "Failed"}


def test_one_of_ready_reconciling_and_stalled_holds_and_each_is_always_there() -> None:
    for shown in SHOWN:
        found = held(shown)
        three = [found["Ready"], found["Reconciling"], found["Stalled"]]
        assert sorted(three) == ["False", "False", "True"], f"{shown.kind} {shown.reason}: {three}"
        assert {one["observedGeneration"] for one in shown.document["status"]["conditions"]} == {
            shown.document["metadata"]["generation"]
        }


def test_reconciling_and_stalled_objects_have_a_message() -> None:
    for shown in SHOWN:
        for type_ in ("Reconciling", "Stalled"):
            condition = shown.condition(type_)
            assert bool(condition["message"]) == (condition["status"] == "True"), f"{shown.kind} {shown.reason}"


def test_a_generation_is_observed_once_its_outcome_is_known() -> None:
    """A BrokerRegistration has no outcome to wait for: its spec never changes."""
    for shown in SHOWN:
        if shown.kind != "BrokerRegistration":
            assert is_observed(shown) == (held(shown)["Reconciling"] == "False"), f"{shown.kind} {shown.reason}"


@pytest.mark.parametrize("kind", KINDS)
def test_before_and_after_everything_else(kind: str) -> None:
    document: Json = next(shown.document for shown in SHOWN if shown.kind == kind and held(shown)["Ready"] == "True")
    assert kstatus(document) == "Current"
    meta = document["metadata"]
    assert kstatus(document | {"metadata": meta | {"generation": meta["generation"] + 1}}) == "InProgress"
    assert kstatus(document | {"metadata": meta | {"deletionTimestamp": "2026-01-01T00:00:00Z"}}) == "Terminating"
    fresh = unseen({key: value for key, value in document.items() if key != "status"})
    assert kstatus(fresh.document) == "InProgress"


def test_an_object_that_cannot_be_read_has_failed() -> None:
    assert kstatus(unreadable(cluster()).document) == "Failed"


def test_an_object_without_a_status_is_current() -> None:
    """The rule that makes the CRDs' default of observedGeneration necessary."""
    assert kstatus({"metadata": {"generation": 1}}) == "Current"
    silent = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
    assert kstatus({"metadata": {"generation": 1}, "status": silent}) == "InProgress"


def reasons_in(text: str) -> Iterator[str]:
    """Reasons that are literals in calls that make a Progress."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(
                func=ast.Name(id="ready" | "working" | "stalled" | "say"), args=[ast.Constant(str(reason)), *_]
            ):
                yield reason


def test_no_reason_that_a_planner_gives_is_left_out() -> None:
    written = {reason for path in PLANNING.rglob("*.py") for reason in reasons_in(path.read_text(encoding="utf-8"))}
    assert {"Rolling", "Refused", "SpecChanged", "AddressPending"} <= written
    assert written - {shown.reason for shown in SHOWN} == set()
