"""Argo CD's health of every kind in every state is what kstatus says, in Argo CD's words."""

from pathlib import Path

import pytest

from sluicegate_operator.api.kinds import KINDS
from tests.support.manifests.bad_manifests import Json, cluster, topic
from tests.support.oracles.argo_health import health_checks
from tests.support.oracles.kstatus import kstatus
from tests.support.worlds.shown_statuses import Shown, shown_statuses, unreadable, unseen

CONFIG_MAP = Path(__file__).parents[3] / "examples" / "gitops" / "argocd" / "argocd-cm.yaml"
CHECKS = health_checks(CONFIG_MAP)
WORDS = {"Current": "Healthy", "InProgress": "Progressing", "Failed": "Degraded", "Terminating": "Progressing"}


def is_paused(shown: Shown) -> bool:
    conditions = shown.document["status"]["conditions"]
    return any(one["type"] == "Paused" and one["status"] == "True" for one in conditions)


def test_every_kind_has_a_health_check() -> None:
    assert set(CHECKS) == set(KINDS)


def test_health_equals_kstatus_with_the_message_of_the_condition() -> None:
    found = set()
    for shown in shown_statuses():
        status, message = CHECKS[shown.kind](shown.document)
        if is_paused(shown):
            assert status == "Suspended"
        else:
            assert status == WORDS[kstatus(shown.document)], f"{shown.kind} {shown.reason}"
            assert message == shown.condition("Ready")["message"]
        found.add(status)
    assert found >= {"Healthy", "Progressing", "Degraded"}


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_that_the_operator_has_not_seen_is_progressing(kind: str) -> None:
    expected = ("Progressing", "the operator has not reconciled it yet")
    document: Json = {"kind": kind, "metadata": {"name": "a"}}
    assert CHECKS[kind](unseen(document).document) == expected
    assert CHECKS[kind]({"kind": kind, "metadata": {"name": "a", "generation": 1}}) == expected


def test_an_older_generation_and_a_deletion_are_progressing() -> None:
    healthy = next(shown.document for shown in shown_statuses() if CHECKS[shown.kind](shown.document)[0] == "Healthy")
    check, meta = CHECKS[healthy["kind"]], healthy["metadata"]
    assert check(healthy | {"metadata": meta | {"generation": 9}})[0] == "Progressing"
    leaving = healthy | {"metadata": meta | {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert check(leaving) == ("Progressing", "it is being deleted")


def test_a_pause_is_suspended_and_what_cannot_be_read_is_degraded() -> None:
    paused: Json = {"type": "Paused", "status": "True", "message": "spec.paused is true"}
    shown = unseen(cluster(paused=True)).document
    shown["status"] |= {"conditions": [paused]}
    assert CHECKS["BrokerCluster"](shown) == ("Suspended", "spec.paused is true")
    assert CHECKS["Topic"](unreadable(topic()).document)[0] == "Degraded"
