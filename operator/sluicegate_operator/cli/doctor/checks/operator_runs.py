"""Judge whether an operator runs for a namespace, from its Deployment and its Lease. Pure."""

from argparse import ArgumentError, ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sluicegate_operator.cli.doctor.checks.catalogue import OPERATOR
from sluicegate_operator.cli.doctor.checks.results import CheckResult, Unread
from sluicegate_operator.planning.registrations.operator_lease import operator_silence
from sluicegate_operator.resources.labels import MANAGER

Json = Mapping[str, Any]
VERSION_LABEL = "app.kubernetes.io/version"
OWN_NAMESPACE = "$(POD_NAMESPACE)"


@dataclass(frozen=True, slots=True)
class OperatorSeen:
    """An operator's Deployment. `watched`: the only namespace that it watches; None for all."""

    namespace: str
    name: str
    account: str
    watched: str | None
    release: str
    ready: int
    replicas: int
    pod_labels: Mapping[str, str]

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{self.account}"

    def watches(self, namespace: str) -> bool:
        return self.watched in (None, namespace)


def operator_in(deployment: Json) -> OperatorSeen:
    meta, spec = deployment["metadata"], deployment["spec"]
    pod = spec["template"]["spec"]
    container = next((one for one in pod["containers"] if one["name"] == "operator"), pod["containers"][0])
    return OperatorSeen(
        namespace=meta["namespace"],
        name=meta["name"],
        account=pod.get("serviceAccountName") or "default",
        watched=_watched([*(container.get("command") or ()), *(container.get("args") or ())], meta["namespace"]),
        release=(meta.get("labels") or {}).get(VERSION_LABEL) or _tag(container.get("image") or ""),
        ready=(deployment.get("status") or {}).get("readyReplicas") or 0,
        replicas=spec.get("replicas", 1),
        pod_labels=spec["template"]["metadata"].get("labels") or {},
    )


def _watched(arguments: Sequence[str], own: str) -> str | None:
    """Return the namespace in a container's command line, which is parsed as the operator parses it."""
    parser = ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("--namespace")
    try:
        found: str | None = parser.parse_known_args(arguments)[0].namespace
    except ArgumentError:
        # The option has no value: such an operator does not start.
        return None
    return own if found == OWN_NAMESPACE else found


def _tag(image: str) -> str:
    """Return the tag of an image; empty without one."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def of_namespace(operators: Sequence[OperatorSeen], namespace: str) -> OperatorSeen | None:
    """Return the operator that watches the namespace; one of this namespace alone is preferred."""
    found = [one for one in operators if one.watches(namespace)]
    return max(found, key=lambda one: one.watched is not None, default=None)


def lease_results(leases: Sequence[Json] | Unread, now: datetime) -> Iterator[CheckResult]:
    """Judge the operators' Leases of all namespaces. `now` is the API server's time."""
    if isinstance(leases, Unread):
        yield OPERATOR.skipped(f"the operator's Lease cannot be read: {leases.why}")
    elif not leases:
        yield OPERATOR.problem(
            "no Lease of an operator exists in any namespace: no operator has run in this Kubernetes cluster",
            "install the operator with the chart charts/sluicegate (docs/install.md)",
        )
    elif silence := operator_silence(leases, now):
        yield OPERATOR.problem(silence)
    else:
        for lease in leases:
            yield _held(lease, now)


def _held(lease: Json, now: datetime) -> CheckResult:
    meta, spec = lease["metadata"], lease.get("spec") or {}
    name = f"Lease {meta['namespace']}/{meta['name']}"
    if silence := operator_silence([lease], now):
        return OPERATOR.warning(f"{silence} ({name}; another operator renews its Lease)")
    if not spec.get("holderIdentity") or not spec.get("renewTime"):
        return OPERATOR.warning(f"{name} has no holder at the moment: an operator stopped, and none has started yet")
    age_s = max(0.0, (now - datetime.fromisoformat(spec["renewTime"])).total_seconds())
    return OPERATOR.ok(f"{spec['holderIdentity']} holds the {name}, and renewed it {age_s:.0f} s ago")


def deployment_results(
    operators: Sequence[OperatorSeen] | Unread, namespace: str, own: str | None
) -> Iterator[CheckResult]:
    """Judge the Deployments of operators. `own` is the release of this command."""
    if isinstance(operators, Unread):
        yield OPERATOR.skipped(f"the operator's Deployment cannot be read: {operators.why}")
        return
    if not operators:
        yield OPERATOR.skipped(f"no Deployment has the label app.kubernetes.io/name={MANAGER}: its release is unknown")
        return
    found = of_namespace(operators, namespace)
    if found is None:
        watched = ", ".join(sorted(str(one.watched) for one in operators))
        yield OPERATOR.problem(
            f"no operator watches namespace {namespace}: those of this Kubernetes cluster watch {watched}",
            "install another operator with watch.namespace of the chart, or create the cluster in a watched namespace",
        )
        return
    yield _deployment(found, own)


def _deployment(found: OperatorSeen, own: str | None) -> CheckResult:
    name = f"Deployment {found.namespace}/{found.name}"
    if not found.ready:
        return OPERATOR.problem(f"{name}: none of {found.replicas} replicas is ready")
    if found.ready < found.replicas:
        return OPERATOR.warning(f"{name}: {found.ready} of {found.replicas} replicas are ready")
    if own is not None and found.release and found.release != own:
        return OPERATOR.warning(
            f"{name} has release {found.release}, and this command {own}",
            "use the command of the operator's release, or upgrade the operator (docs/upgrade.md)",
        )
    return OPERATOR.ok(f"{name} has release {found.release or 'unknown'}, {found.ready} of {found.replicas} are ready")
