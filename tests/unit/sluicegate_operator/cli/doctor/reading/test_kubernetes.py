"""The checks of Kubernetes, over an installation in memory with one fault at a time."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from sluicegate_operator.cli.asking.brokers_asked import NobodyToAskError
from sluicegate_operator.cli.doctor.checks.addresses import Attempt, ListenerAddress
from sluicegate_operator.cli.doctor.checks.results import CheckResult, Outcome
from sluicegate_operator.cli.doctor.reading.kubernetes import KubernetesDoctor
from sluicegate_operator.cli.doctor.reading.reads import DoctorReads
from tests.support.fakes.kube.read_kube import ReadKube
from tests.unit.sluicegate_operator.cli.doctor.reading.installed import (
    NAMESPACE,
    RELEASE,
    a_claim,
    a_registration,
    a_storage_class,
    installed,
    summary,
)

Json = dict[str, Any]
SUMMARY = "/api/v1/nodes/machine-1/proxy/stats/summary"


async def not_tried(addresses: Iterable[ListenerAddress]) -> dict[ListenerAddress, Attempt]:
    return {address: Attempt("no such name", resolved=False) for address in addresses}


async def examined(kube: ReadKube, cluster: str | None = None, namespace: str = NAMESPACE) -> list[CheckResult]:
    reads = DoctorReads(kube, not_tried)  # type: ignore[arg-type]
    return await KubernetesDoctor(reads, namespace, cluster, RELEASE).results()


def bad(results: list[CheckResult]) -> list[tuple[str, Outcome, str]]:
    return [
        (one.check.name, one.outcome, one.sentence)
        for one in results
        if one.outcome in (Outcome.WARNING, Outcome.PROBLEM)
    ]


async def test_a_whole_installation_has_no_findings() -> None:
    results = await examined(installed())
    assert bad(results) == []
    assert {one.check.name for one in results if one.outcome is Outcome.OK} == {
        "API server",
        "clock",
        "CRDs",
        "your rights",
        "operator",
        "operator's rights",
        "nodes",
        "controller",
        "brokers",
        "releases",
        "network policies",
        "volumes",
        "free space",
        "objects",
    }
    # The Service's name resolves only inside of the Kubernetes cluster.
    assert [one.check.name for one in results if one.outcome is Outcome.SKIPPED] == ["addresses"]


def lose(kind: str, name: str, namespace: str | None = NAMESPACE) -> Callable[[ReadKube], None]:
    return lambda kube: kube.remove(kind, name, namespace)


def put(document: Json) -> Callable[[ReadKube], object]:
    return lambda kube: kube.put(document)


def answer(path: str, document: Json) -> Callable[[ReadKube], None]:
    return lambda kube: kube.documents.update({path: document})


def deny(verb: str, resource: str) -> Callable[[ReadKube], None]:
    return lambda kube: kube.denied.add((verb, resource))


DENY_ALL = {
    "kind": "NetworkPolicy",
    "metadata": {"name": "deny-all", "namespace": NAMESPACE},
    "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
}


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (answer("/version", {"gitVersion": "v1.29.0"}), ("API server", Outcome.PROBLEM, "refuses the CRDs")),
        (
            lose("CustomResourceDefinition", "topics.sluicegate.dev", None),
            ("CRDs", Outcome.PROBLEM, "topics.sluicegate.dev does not exist"),
        ),
        (
            lose("Lease", "sluicegate-operator", "sluicegate-system"),
            ("operator", Outcome.PROBLEM, "no Lease of an operator exists"),
        ),
        (deny("get", "pods/proxy"), ("your rights", Outcome.WARNING, "you may not get pods/proxy")),
        (
            deny("patch", "pods/status"),
            ("operator's rights", Outcome.PROBLEM, "may not patch pods/status in namespace"),
        ),
        (put(a_registration(1, "0.1.0")), ("releases", Outcome.WARNING, "several releases")),
        (put(DENY_ALL), ("network policies", Outcome.PROBLEM, "policy deny-all of shop-controllers-0")),
        (put(a_claim("data-shop-brokers-0", "Pending")), ("volumes", Outcome.PROBLEM, "is Pending, not Bound")),
        (put(a_storage_class(expands=False)), ("volumes", Outcome.WARNING, "does not allow volumes to grow")),
        (answer(SUMMARY, summary(2)), ("free space", Outcome.PROBLEM, "2.0 GiB of 100.0 GiB")),
    ],
)
async def test_one_fault_is_found(fault: Callable[[ReadKube], object], expected: tuple[str, Outcome, str]) -> None:
    kube = installed()
    fault(kube)
    found = bad(await examined(kube))
    assert {one[:2] for one in found} == {expected[:2]}
    assert expected[2] in found[0][2]


@pytest.mark.parametrize(
    "foreign",
    [
        a_claim("data-shop-brokers-0-copy", "Pending"),
        a_claim("data-other-brokers-0", "Pending"),
        a_claim("data-shop-brokers-2", "Pending", controller="PostgresCluster"),
    ],
)
async def test_a_claim_that_only_has_the_clusters_label_is_no_finding(foreign: Json) -> None:
    kube = installed()
    kube.put(foreign)
    results = await examined(kube)
    assert bad(results) == []
    assert "2 of 2 claims are bound" in [one.sentence for one in results]


@pytest.mark.parametrize(
    ("plural", "check"),
    [
        ("customresourcedefinitions", "CRDs"),
        ("selfsubjectaccessreviews", "your rights"),
        ("subjectaccessreviews", "operator's rights"),
        ("leases", "operator"),
        ("deployments", "operator"),
        ("deployments", "operator's rights"),
        ("networkpolicies", "network policies"),
        ("persistentvolumeclaims", "volumes"),
        ("storageclasses", "volumes"),
        ("brokerregistrations", "releases"),
        ("topics", "objects"),
        ("brokerclusters", "nodes"),
        ("pods", "nodes"),
    ],
)
async def test_what_the_user_may_not_read_is_skipped_with_the_reason(plural: str, check: str) -> None:
    kube = installed()
    kube.forbidden.add(plural)
    results = await examined(kube)
    assert bad(results) == []
    [one] = [one for one in results if one.check.name == check and one.outcome is Outcome.SKIPPED][:1]
    assert "is forbidden" in one.sentence or "no Deployment was found" in one.sentence


async def test_an_operator_is_also_found_in_its_usual_namespace_alone() -> None:
    kube = installed()
    kube.forbidden_everywhere = {"deployments", "leases"}
    results = await examined(kube)
    assert [one.outcome for one in results if one.check.name in ("operator", "operator's rights")] == [Outcome.OK] * 3


async def test_kubelets_that_the_user_may_not_ask_are_skipped() -> None:
    kube = installed()
    del kube.documents[SUMMARY]
    [one] = [one for one in await examined(kube) if one.check.name == "free space"]
    assert (one.outcome, one.sentence[:44]) == (Outcome.SKIPPED, "free space of volumes on machine-1: GET /api")


async def test_only_one_review_asks_for_the_operators_rights_if_the_first_is_refused() -> None:
    kube = installed()
    kube.forbidden.add("subjectaccessreviews")
    await examined(kube)
    assert not [spec for spec in kube.reviewed if "user" in spec]


async def test_an_api_server_that_does_not_answer_is_the_only_result() -> None:
    kube = installed()
    kube.unavailable = "the API server does not answer: timed out"
    assert bad(await examined(kube)) == [("API server", Outcome.PROBLEM, kube.unavailable)]


async def test_a_clock_that_differs_does_not_make_the_lease_old() -> None:
    kube = installed()
    kube.date = "Mon, 30 Nov 2020 12:00:00 GMT"
    kube.put(kube.take("Lease", "sluicegate-operator", "sluicegate-system"))
    kube.objects["Lease", "sluicegate-system", "sluicegate-operator"]["spec"]["renewTime"] = "2020-11-30T11:59:58Z"
    assert [one[:2] for one in bad(await examined(kube))] == [("clock", Outcome.PROBLEM)]


async def test_a_namespace_without_clusters_is_no_fault_and_a_wrong_name_is() -> None:
    kube = installed()
    kube.put({"kind": "Namespace", "metadata": {"name": "empty", "namespace": None}})
    results = await examined(kube, namespace="empty")
    assert bad(results) == []
    assert "namespace empty has no BrokerCluster" in "".join(one.sentence for one in results)
    with pytest.raises(NobodyToAskError, match="no BrokerCluster other"):
        await examined(installed(), "other")
    with pytest.raises(NobodyToAskError, match="namespace none does not exist"):
        await examined(installed(), namespace="none")


async def test_one_cluster_is_chosen_by_name() -> None:
    kube = installed()
    kube.put(a_claim("data-other-brokers-0", "Pending") | {"metadata": {"name": "data-other", "namespace": NAMESPACE}})
    assert bad(await examined(kube, "shop")) == []


async def test_a_user_who_may_not_ask_nodes_learns_their_state_from_pods_and_registrations() -> None:
    kube = installed()
    for path in [path for path in kube.documents if "/pods/" in path]:
        del kube.documents[path]
    kube.status = 403
    kube.put(a_registration(0) | {"status": {"state": "Fenced"}})
    assert bad(await examined(kube)) == [
        ("brokers", Outcome.PROBLEM, "broker 0 of shop is Fenced: it serves no clients"),
    ]


async def test_nodes_that_do_not_answer_are_problems() -> None:
    kube = installed()
    for path in [path for path in kube.documents if "/pods/" in path]:
        del kube.documents[path]
    assert [one[:2] for one in bad(await examined(kube))] == [
        ("nodes", Outcome.PROBLEM),
        ("nodes", Outcome.PROBLEM),
        ("controller", Outcome.PROBLEM),
    ]
