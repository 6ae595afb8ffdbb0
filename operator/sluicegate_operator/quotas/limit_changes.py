"""Phrases for users about the limits that differ between two plans."""

from sluicegate_operator.quotas.model.targets import Limits, TargetKey, TargetKind
from sluicegate_operator.quotas.plan import QuotaPlan


def changed_limits(before: QuotaPlan | None, after: QuotaPlan) -> list[str]:
    """Return phrases such as `listener EXTERNAL 50/s -> 200/s`, one for each target whose limits differ."""
    old = before.limits if before is not None else {}
    new = after.limits
    targets = sorted({*old, *new})
    return [
        f"{_target(target)} {_limits(old.get(target))} -> {_limits(new.get(target))}"
        for target in targets
        if old.get(target) != new.get(target)
    ]


def _target(target: TargetKey) -> str:
    apart = f" ({target.apart})" if target.apart else ""
    single = target.kind is TargetKind.CIDR and "/" not in target.name
    kind = TargetKind.IP if single else target.kind
    return f"{kind} {target.name}".strip() + apart


def _limits(limits: Limits | None) -> str:
    if limits is None:
        return "no limit"
    whose = " of all brokers together" if limits.of_cluster else ""
    shown = [
        f"{limits.rate}/s{whose}" if limits.rate is not None else "",
        f"{limits.count} open" if limits.count else "",
    ]
    return " and ".join(part for part in shown if part) or "no limit"
