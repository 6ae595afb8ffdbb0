"""The rights of the user and of the operator's service account."""

from sluicegate_operator.cli.doctor.checks.results import Outcome, Unread
from sluicegate_operator.cli.doctor.checks.rights import (
    Right,
    operator_rights,
    operator_rights_results,
    user_rights,
    user_rights_results,
)
from sluicegate_operator.kube.client.rights import CALLED

ACCOUNT = "system:serviceaccount:sluicegate-system:sluicegate-operator"
NEEDS = user_rights("kafka")
ALL = {right: True for rights in NEEDS.values() for right in rights}


def test_a_review_names_the_user_only_if_it_is_another_one() -> None:
    right = Right("get", "", "pods/proxy", "kafka")
    attributes = {"verb": "get", "resource": "pods", "subresource": "proxy", "namespace": "kafka"}
    own = right.review()
    assert (own["kind"], own["spec"]) == ("SelfSubjectAccessReview", {"resourceAttributes": attributes})
    others = right.review(ACCOUNT)
    assert others["kind"] == "SubjectAccessReview"
    assert others["spec"]["user"] == ACCOUNT
    assert "system:serviceaccounts:sluicegate-system" in others["spec"]["groups"]


def test_all_rights_of_the_user_are_one_line() -> None:
    [one] = user_rights_results(NEEDS, ALL)
    assert (one.outcome, one.sentence) == (
        Outcome.OK,
        f"{len(ALL)} of {len(ALL)} rights that commands use are granted",
    )


def test_cluster_scoped_resources_are_reviewed_without_a_namespace() -> None:
    assert {right.resource for right in ALL if not right.namespace} == {"customresourcedefinitions", "storageclasses"}


def test_a_missing_right_says_what_it_is_for() -> None:
    answers = {**ALL, Right("get", "", "pods/proxy", "kafka"): False}
    found = list(user_rights_results(NEEDS, answers))
    assert [(one.outcome, one.sentence) for one in found[:1]] == [
        (
            Outcome.WARNING,
            "you may not get pods/proxy in namespace kafka: with these rights, `status`, `quotas` and `why` ask brokers"
            " and controllers",
        )
    ]
    assert found[-1].outcome is Outcome.OK


def test_rights_of_the_whole_cluster_have_their_own_remedy() -> None:
    missing = {
        Right("get", "storage.k8s.io", "storageclasses", ""),
        Right("list", "", "persistentvolumeclaims", "kafka"),
    }
    inside, outside, _ = user_rights_results(NEEDS, {**ALL, **dict.fromkeys(missing, False)})
    assert inside.sentence.startswith("you may not list persistentvolumeclaims in namespace kafka: ")
    assert outside.sentence.startswith("you may not get storageclasses: ")
    assert ("RoleBinding to the ClusterRole edit" in inside.remedy, "ClusterRoleBinding" in outside.remedy) == (
        True,
        True,
    )


def test_reviews_that_are_refused_are_skipped() -> None:
    found = list(user_rights_results(NEEDS, dict.fromkeys(ALL, Unread("403"))))
    assert {one.outcome for one in found} == {Outcome.SKIPPED}
    [one] = operator_rights_results(ACCOUNT, {Right("list", "", "pods", "kafka"): Unread("403")})
    assert (one.outcome, one.sentence) == (Outcome.SKIPPED, f"the rights of {ACCOUNT} are unknown: 403")


def test_an_operator_of_all_namespaces_needs_every_right_of_the_table() -> None:
    rights = operator_rights("sluicegate-system", None, "kafka")
    for (group, resource), verbs in CALLED.items():
        where = "" if resource in ("nodes", "namespaces") else "kafka"
        assert {Right(verb, group, resource, where) for verb in verbs} <= set(rights)
    lease = Right("update", "coordination.k8s.io", "leases", "sluicegate-system")
    assert lease in rights
    assert len(rights) == len(set(rights))


def test_an_operator_of_one_namespace_needs_nothing_outside_of_it() -> None:
    assert {right.namespace for right in operator_rights("sluicegate-system", "kafka", "kafka")} == {"kafka"}


def test_a_missing_right_of_the_operator_is_a_problem() -> None:
    rights = operator_rights("sluicegate-system", None, "kafka")
    [one] = operator_rights_results(ACCOUNT, dict.fromkeys(rights, True))
    assert one.outcome is Outcome.OK
    missing = Right("list", "", "pods", "kafka")
    [one] = operator_rights_results(ACCOUNT, {**dict.fromkeys(rights, True), missing: False})
    assert (one.outcome, one.sentence) == (Outcome.PROBLEM, f"{ACCOUNT} may not list pods in namespace kafka")
