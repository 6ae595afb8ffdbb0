"""The rights of the user and of the operator: which are asked for, and what a missing one means. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate_operator.api.kinds import KINDS
from sluicegate_operator.api.schema.metadata import GROUP
from sluicegate_operator.cli.doctor.checks.catalogue import OPERATOR_RIGHTS, USER_RIGHTS
from sluicegate_operator.cli.doctor.checks.results import CheckResult, Unread, listed
from sluicegate_operator.kube.client.rights import CALLED, HELD
from sluicegate_operator.kube.http.kinds import BROKER_REGISTRATION

CLUSTER_SCOPED = frozenset({"nodes", "namespaces", "storageclasses", "customresourcedefinitions"})
LEASES = ("coordination.k8s.io", "leases")
OF_ALL_NAMESPACES = frozenset({"nodes", "namespaces"})
"""Resources that an operator of one namespace reads only with `rbac.readNodes`, or not at all."""


@dataclass(frozen=True, slots=True)
class Right:
    """A verb on a resource of a namespace. `namespace` is empty for cluster-scoped resources."""

    verb: str
    group: str
    resource: str
    namespace: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"

    def review(self, user: str = "") -> dict[str, Any]:
        """Return the manifest of an access review for `user`; for the user of the kubeconfig if it is empty."""
        resource, _, subresource = self.resource.partition("/")
        wanted = {
            "verb": self.verb,
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": self.namespace,
        }
        spec: dict[str, Any] = {"resourceAttributes": {key: value for key, value in wanted.items() if value}}
        if user:
            _, _, namespace, _ = user.split(":")
            groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
            spec |= {"user": user, "groups": groups}
        kind = "SubjectAccessReview" if user else "SelfSubjectAccessReview"
        return {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}


Answers = Mapping[Right, bool | Unread]
"""Whether a right is granted, or why that is unknown."""


def user_rights(namespace: str) -> dict[str, list[Right]]:
    """Return the rights that commands need, by what they are needed for."""
    by_users = [kind for kind in KINDS.values() if kind.by_users]

    def of(verb: str, group: str, *resources: str) -> list[Right]:
        return [Right(verb, group, resource, "" if resource in CLUSTER_SCOPED else namespace) for resource in resources]

    return {
        "`status`, `plan` and `why` show all objects": [
            *of("list", GROUP, *(kind.plural for kind in by_users), BROKER_REGISTRATION.plural),
            *of("list", "", "pods"),
        ],
        "`status`, `quotas` and `why` ask brokers and controllers": of("get", "", "pods/proxy"),
        "`kubectl apply` creates objects": of("create", GROUP, *(kind.plural for kind in by_users)),
        "`doctor` checks CRDs, networks and volumes": [
            *of("get", "apiextensions.k8s.io", "customresourcedefinitions"),
            *of("list", "networking.k8s.io", "networkpolicies"),
            *of("list", "", "persistentvolumeclaims"),
            *of("get", "storage.k8s.io", "storageclasses"),
        ],
    }


def user_rights_results(needs: Mapping[str, Sequence[Right]], answers: Answers) -> Iterator[CheckResult]:
    granted = 0
    for use, rights in needs.items():
        if unknown := [answer.why for right in rights if isinstance(answer := answers[right], Unread)]:
            yield USER_RIGHTS.skipped(f"rights with which {use}: {unknown[0]}")
            continue
        yield from _missing(use, [right for right in rights if not answers[right]])
        granted += sum(answers[right] is True for right in rights)
    if granted:
        yield USER_RIGHTS.ok(f"{granted} of {sum(map(len, needs.values()))} rights that commands use are granted")


def _missing(use: str, missing: Sequence[Right]) -> Iterator[CheckResult]:
    inside = [right for right in missing if right.namespace]
    outside = [right for right in missing if not right.namespace]
    if inside:
        yield USER_RIGHTS.warning(
            f"you may not {listed(inside)} in namespace {inside[0].namespace}: with these rights, {use}"
        )
    if outside:
        yield USER_RIGHTS.warning(
            f"you may not {listed(outside)}: with these rights, {use}",
            "ask an administrator for a ClusterRoleBinding to a ClusterRole with these rights",
        )


def operator_rights(account_namespace: str, watched: str | None, namespace: str) -> list[Right]:
    """Return the rights that an operator needs for the clusters of `namespace`.

    `watched`: the only namespace that the operator watches; None for all.
    """
    rights: dict[Right, None] = {}
    for needed in (CALLED, HELD):
        for (group, resource), verbs in needed.items():
            if resource in OF_ALL_NAMESPACES and watched is not None:
                continue
            where = "" if resource in CLUSTER_SCOPED else namespace
            rights |= dict.fromkeys(Right(verb, group, resource, where) for verb in sorted(verbs))
    lease_namespace = watched or account_namespace
    rights |= dict.fromkeys(Right(verb, *LEASES, lease_namespace) for verb in ("get", "create", "update"))
    return list(rights)


def operator_rights_results(account: str, answers: Answers) -> Iterator[CheckResult]:
    if unknown := [answer.why for answer in answers.values() if isinstance(answer, Unread)]:
        yield OPERATOR_RIGHTS.skipped(f"the rights of {account} are unknown: {unknown[0]}")
        return
    missing: dict[str, list[Right]] = {}
    for right, granted in answers.items():
        if not granted:
            missing.setdefault(right.namespace, []).append(right)
    for namespace, rights in missing.items():
        where = f"in namespace {namespace}" if namespace else "of the whole cluster"
        yield OPERATOR_RIGHTS.problem(f"{account} may not {listed(rights)} {where}")
    if not missing:
        yield OPERATOR_RIGHTS.ok(f"{account} has all {len(answers)} rights that it needs")
