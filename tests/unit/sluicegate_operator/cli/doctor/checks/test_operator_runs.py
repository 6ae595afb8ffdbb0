"""The operator's Deployment and its Lease."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sluicegate_operator.cli.doctor.checks.operator_runs import (
    deployment_results,
    lease_results,
    of_namespace,
    operator_in,
)
from sluicegate_operator.cli.doctor.checks.results import Outcome, Unread

Json = dict[str, Any]
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def lease(age_s: float = 2.0, holder: str | None = "operator-1", namespace: str = "sluicegate-system") -> Json:
    renewed = (NOW - timedelta(seconds=age_s)).isoformat()
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}
    return {"metadata": {"name": "sluicegate-operator", "namespace": namespace}, "spec": spec}


def deployment(*arguments: str, release: str = "0.2.0", ready: int = 1, **more: Any) -> Json:
    container = {"name": "operator", "image": "sluicegate:0.1.9", "args": list(arguments or ("--all-namespaces",))}
    labels = {"app.kubernetes.io/version": release} if release else {}
    return {
        "metadata": {"name": "sluicegate-operator", "namespace": "sluicegate-system", "labels": labels},
        "spec": {
            "replicas": 1,
            "template": {
                "metadata": {"labels": {"app.kubernetes.io/name": "sluicegate-operator"}},
                "spec": {"serviceAccountName": "sluicegate-operator", "containers": [container]},
            },
            **more,
        },
        "status": {"readyReplicas": ready} if ready else {},
    }


def of_leases(*leases: Json) -> list[tuple[Outcome, str]]:
    return [(one.outcome, one.sentence) for one in lease_results(leases, NOW)]


def of_deployments(*deployments: Json, namespace: str = "kafka") -> list[tuple[Outcome, str]]:
    seen = [operator_in(one) for one in deployments]
    return [(one.outcome, one.sentence) for one in deployment_results(seen, namespace, "0.2.0")]


def test_a_lease_that_is_renewed() -> None:
    words = "operator-1 holds the Lease sluicegate-system/sluicegate-operator, and renewed it 2 s ago"
    assert of_leases(lease()) == [(Outcome.OK, words)]


def test_a_lease_that_nobody_renews_is_a_problem() -> None:
    [(outcome, words)] = of_leases(lease(300.0))
    assert outcome is Outcome.PROBLEM
    assert "has not renewed its Lease sluicegate-system/sluicegate-operator for 300 s" in words


def test_one_silent_operator_beside_another_is_a_warning() -> None:
    assert [outcome for outcome, _ in of_leases(lease(300.0, namespace="old"), lease())] == [
        Outcome.WARNING,
        Outcome.OK,
    ]


def test_a_released_lease_and_none() -> None:
    assert of_leases(lease(holder=None))[0][0] is Outcome.WARNING
    assert of_leases(lease() | {"spec": {"holderIdentity": "operator-1"}})[0][0] is Outcome.WARNING
    assert of_leases()[0][0] is Outcome.PROBLEM
    [one] = lease_results(Unread("403"), NOW)
    assert one.outcome is Outcome.SKIPPED


def test_a_deployment_that_is_ready() -> None:
    words = "Deployment sluicegate-system/sluicegate-operator has release 0.2.0, 1 of 1 are ready"
    assert of_deployments(deployment()) == [(Outcome.OK, words)]
    assert operator_in(deployment()).user == "system:serviceaccount:sluicegate-system:sluicegate-operator"


@pytest.mark.parametrize(
    ("found", "outcome", "words"),
    [
        (deployment(ready=0), Outcome.PROBLEM, "none of 1 replicas is ready"),
        (deployment(replicas=2), Outcome.WARNING, "1 of 2 replicas are ready"),
        (deployment(release="0.1.0"), Outcome.WARNING, "has release 0.1.0, and this command 0.2.0"),
        (deployment(release=""), Outcome.WARNING, "has release 0.1.9, and this command 0.2.0"),
        (deployment("--namespace", "shop"), Outcome.PROBLEM, "no operator watches namespace kafka"),
        (deployment("--namespace", "$(POD_NAMESPACE)"), Outcome.PROBLEM, "no operator watches namespace kafka"),
        (deployment("--namespace", "kafka"), Outcome.OK, "has release 0.2.0"),
    ],
)
def test_a_deployment_with_a_fault(found: Json, outcome: Outcome, words: str) -> None:
    [one] = of_deployments(found)
    assert (one[0], words in one[1]) == (outcome, True)


def test_the_operator_of_the_namespace_alone_is_preferred() -> None:
    found = of_namespace([operator_in(deployment()), operator_in(deployment("--namespace", "kafka"))], "kafka")
    assert found is not None
    assert found.watched == "kafka"


def test_deployments_that_are_missing_or_unread_are_skipped() -> None:
    assert of_deployments()[0][0] is Outcome.SKIPPED
    [one] = deployment_results(Unread("403"), "kafka", "0.2.0")
    assert one.outcome is Outcome.SKIPPED


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("sluicegate:0.2.0", "0.2.0"),
        ("registry.example:5000/x/sluicegate:0.2.0@sha256:ab", "0.2.0"),
        ("registry.example:5000/x/sluicegate", ""),
        ("sluicegate@sha256:ab", ""),
    ],
)
def test_the_release_in_the_name_of_an_image(image: str, release: str) -> None:
    found = deployment(release="")
    found["spec"]["template"]["spec"]["containers"][0]["image"] = image
    assert operator_in(found).release == release


@pytest.mark.parametrize(
    ("arguments", "watched"),
    [
        (("--namespace", "shop"), "shop"),
        (("--namespace=shop",), "shop"),
        (("--names", "shop"), "shop"),
        (("--namespace=$(POD_NAMESPACE)",), "sluicegate-system"),
        (("--namespace=old", "--log-level", "DEBUG", "--namespace", "shop"), "shop"),
        (("--all-namespaces",), None),
        (("--metrics-listener=0.0.0.0:8080",), None),
        (("--namespace",), None),
    ],
)
def test_every_spelling_of_the_watched_namespace_is_read(arguments: tuple[str, ...], watched: str | None) -> None:
    of_arguments, of_command = deployment(*arguments), deployment()
    [container] = of_command["spec"]["template"]["spec"]["containers"]
    container |= {"command": ["python", "-m", "sluicegate_operator", *arguments], "args": []}
    assert [operator_in(one).watched for one in (of_arguments, of_command)] == [watched, watched]
