"""The CRDs of an API server beside those of this release."""

import copy
from typing import Any

import pytest

from sluicegate_operator.cli.doctor.checks.crds import crd_results, wanted_crds
from sluicegate_operator.cli.doctor.checks.results import CheckResult, Outcome, Unread

Json = dict[str, Any]
TOPICS = "topics.sluicegate.dev"
PLURALS = frozenset(name.partition(".")[0] for name in wanted_crds())


def stored() -> dict[str, Json]:
    """The CRDs of this release, as an API server returns them."""
    status = {"conditions": [{"type": "Established", "status": "True"}, {"type": "NamesAccepted", "status": "True"}]}
    return {name: copy.deepcopy(dict(crd)) | {"status": status} for name, crd in wanted_crds().items()}


def results(found: Any, served: Any = PLURALS) -> list[CheckResult]:
    return list(crd_results(found, served, "0.2.0"))


def spec_of(crd: Json) -> Json:
    [version] = crd["spec"]["versions"]
    found: Json = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


def test_the_crds_of_this_release_are_fine() -> None:
    [one] = results(stored())
    assert (one.outcome, one.sentence[:14]) == (Outcome.OK, "8 of 8 CRDs ar")


def test_a_missing_crd_is_a_problem() -> None:
    bad, good = results({**stored(), TOPICS: None})
    assert bad.outcome is Outcome.PROBLEM
    assert bad.sentence == "topics.sluicegate.dev does not exist, or does not serve sluicegate.dev/v1alpha1"
    assert "kubectl apply --server-side -f crds" in bad.remedy
    assert good.outcome is Outcome.OK


def test_a_user_who_may_not_read_crds_still_learns_which_are_missing() -> None:
    unread = dict.fromkeys(wanted_crds(), Unread("403 forbidden"))
    missing, skipped = results(unread, PLURALS - {"topics"})
    assert (missing.outcome, missing.sentence[:21]) == (Outcome.PROBLEM, TOPICS)
    assert (skipped.outcome, skipped.sentence) == (
        Outcome.SKIPPED,
        "the schemas of CRDs cannot be compared: 403 forbidden",
    )
    assert [one.outcome for one in results(unread, Unread("no answer"))] == [Outcome.SKIPPED]


def test_a_crd_that_is_not_established_says_why() -> None:
    found = stored()
    refused = {"type": "NamesAccepted", "status": "False", "message": 'the short name "tp" is taken'}
    found[TOPICS]["status"] = {"conditions": [{"type": "Established", "status": "False"}, refused]}
    assert results(found)[0].sentence == f'{TOPICS} is not established: the short name "tp" is taken'


@pytest.mark.parametrize("change", [{"name": "v1"}, {"served": False}])
def test_a_crd_without_this_version_is_a_problem(change: Json) -> None:
    found = stored()
    found[TOPICS]["spec"]["versions"][0] |= change
    one = results(found)[0]
    assert (one.outcome, "does not serve the version v1alpha1" in one.sentence) == (Outcome.PROBLEM, True)


def test_a_crd_of_an_older_release_lacks_fields() -> None:
    found = stored()
    del spec_of(found[TOPICS])["properties"]["deletionPolicy"]
    one = results(found)[0]
    assert (one.outcome, one.sentence) == (
        Outcome.PROBLEM,
        f"{TOPICS} has another schema than release 0.2.0: it lacks the fields spec.deletionPolicy",
    )


def test_a_field_deep_inside_of_lists_and_maps_is_found() -> None:
    found = stored()
    spec = spec_of(found["brokerclusters.sluicegate.dev"])
    del spec["properties"]["brokers"]["properties"]["pod"]["properties"]["tolerations"]["items"]["properties"]["key"]
    assert "it lacks the fields spec.brokers.pod.tolerations[].key" in results(found)[0].sentence


def test_a_crd_of_a_newer_release_has_more_fields() -> None:
    found = stored()
    spec_of(found[TOPICS])["properties"]["tiered"] = {"type": "boolean"}
    one = results(found)[0]
    assert (one.outcome, one.sentence) == (
        Outcome.WARNING,
        f"{TOPICS} has fields that release 0.2.0 does not know: spec.tiered",
    )
    assert "use the command of their release" in one.remedy


def test_another_rule_for_a_field_is_a_warning() -> None:
    found = stored()
    spec_of(found[TOPICS])["properties"]["partitions"]["maximum"] = 7
    one = results(found)[0]
    assert (one.outcome, one.sentence) == (
        Outcome.WARNING,
        f"{TOPICS} has another schema than release 0.2.0 at spec.partitions",
    )
