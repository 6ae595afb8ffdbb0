"""The limits of ConnectionQuotas as a document for `what-if` of the audit pipeline. Pure.

The document has the limits in the form in which brokers get them: configuration keys and client quotas.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.api.models.connection_quota import ConnectionQuota
from sluicegate_operator.planning.layout.cluster_layout import INTERNAL, quota_window
from sluicegate_operator.planning.limits.connection_groups import ANYBODY, CLUSTER
from sluicegate_operator.planning.limits.limits import (
    CONNECTION_CREATION_RATE,
    COUNT_PER_IP_OVERRIDES,
    IP,
    QuotaKey,
    is_scope,
)
from sluicegate_operator.quotas.model.quota_keys import config_limits
from sluicegate_operator.quotas.model.strictest import limit_of
from sluicegate_operator.quotas.model.targets import LimitField, Limits, TargetKey, TargetKind
from sluicegate_operator.quotas.model.verdicts import QuotaOutcome
from sluicegate_operator.quotas.plan import Claim, QuotaPlan, Scope, is_governed, plan_claims

_DEFAULT_ENTITY = "<default>"


@dataclass(frozen=True, slots=True)
class QuotasToTry:
    """The ConnectionQuotas of one cluster that a user tries on the audit log with `what-if`, and what they depend on.

    `cluster` is None if only its quotas are given. `members`: addresses and ranges of workloads, by the name of the
    quota. `enforce`: quotas of mode Observe are tried as if they enforced their limits.
    """

    quotas: Sequence[ConnectionQuota]
    cluster: BrokerCluster | None = None
    listeners: Sequence[BrokerListener] = ()
    members: Mapping[str, Sequence[str]] = field(default_factory=dict)
    enforce: bool = False


def limits_to_try(given: QuotasToTry, now: datetime) -> dict[str, Any]:
    """Return the document with the limits of these quotas, which `what-if` reads.

    Limits that have expired at `now` are in its notes.
    """
    scope = Scope(there=True) if given.cluster is None else Scope.of(given.cluster, given.listeners)
    claims = [
        Claim.of(_enforcing(quota) if given.enforce else quota, _members(given.members, quota))
        for quota in given.quotas
        if is_governed(quota, given.cluster)
    ]
    plan = plan_claims(scope, claims, now)
    settings = None if given.cluster is None else given.cluster.spec.connection_quota
    return {
        "configs": {
            "inter.broker.listener.name": INTERNAL,
            **quota_window(settings),
            **{key: value for key, value in plan.desired.configs.items() if not is_scope(key)},
        },
        "quotas": [_quota(key, value) for key, value in plan.desired.quotas.items() if key[1] != CLUSTER],
        "names": list(_names(plan)),
        "notes": list(_notes(plan, [claim.quota for claim in claims])),
    }


def _enforcing(quota: ConnectionQuota) -> ConnectionQuota:
    return quota.model_copy(update={"spec": quota.spec.model_copy(update={"mode": "Enforce"})})


def _members(members: Mapping[str, Sequence[str]], quota: ConnectionQuota) -> Mapping[str, float] | None:
    given = members.get(quota.name)
    return None if given is None else dict.fromkeys(given, ANYBODY)


def _quota(key: QuotaKey, value: float) -> dict[str, Any]:
    entity, name = key
    return {"entity": dict(entity), "key": name, "value": value}


def _names(plan: QuotaPlan) -> Iterator[dict[str, str | None]]:
    """Yield which quota sets which limit, by the key and the entity that brokers report for it.

    Connection groups have the names of their quotas.
    """
    for target, ruling in plan.rulings.items():
        if target.is_group or ruling.limits is None:
            continue
        for claim in ruling.claims:
            quota, verdict = claim.quota, ruling.verdicts[claim.quota.name]
            if not verdict.target_found:
                continue
            lost = {conflict.field for conflict in verdict.conflicts}
            for limit in LimitField:
                value = limit_of(quota, limit)
                if value is not None and limit not in lost:
                    key, entity = _reported(target, limit, value)
                    yield {"key": key, "entity": entity, "quota": f"{quota.namespace}/{quota.name}"}


def _reported(target: TargetKey, limit: LimitField, value: int) -> tuple[str, str | None]:
    """Return the key and the entity that brokers report for a limit."""
    if target.kind is TargetKind.IP:
        key = CONNECTION_CREATION_RATE if limit is LimitField.RATE else COUNT_PER_IP_OVERRIDES
        return key, f"{IP}={target.name}"
    if target.kind is TargetKind.DEFAULT_IP and limit is LimitField.RATE:
        return CONNECTION_CREATION_RATE, f"{IP}={_DEFAULT_ENTITY}"
    (key,) = config_limits(target, Limits(rate=value) if limit is LimitField.RATE else Limits(count=value))
    return key, None


def _notes(plan: QuotaPlan, quotas: Sequence[ConnectionQuota]) -> Iterator[str]:
    """Yield sentences about quotas that are not tried, or that enforce nothing."""
    for quota in quotas:
        verdict = plan.of[quota.name].verdicts[quota.name]
        if verdict.outcome is QuotaOutcome.PODS_UNKNOWN:
            yield (
                f"ConnectionQuota {quota.name} is not tried, because the log does not say which addresses the pods of "
                f"a workload had: give them with --member {quota.name}=ADDRESS"
            )
        elif verdict.message:
            yield f"ConnectionQuota {quota.name}: {verdict.message}"
        elif quota.spec.is_of_cluster:
            yield (
                f"ConnectionQuota {quota.name} has scope Cluster, and is tried as if each broker had the whole rate: a "
                "replay takes each broker alone, so brokers together may accept more than they would"
            )
        elif quota.spec.adaptive is not None:
            yield (
                f"ConnectionQuota {quota.name} is adaptive, and is tried with its adaptive.maxRate: the log does not "
                "say how far brokers would have lowered the rate"
            )
        elif quota.spec.is_observing:
            yield f"ConnectionQuota {quota.name} has mode Observe, which delays and rejects nothing: --enforce tries it"
