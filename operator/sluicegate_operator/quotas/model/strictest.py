"""The precedence between ConnectionQuotas on one target: the strictest value of each limit is enforced. Pure."""

from collections.abc import Mapping, Sequence

from sluicegate_operator.api.models.connection_quota import ConnectionQuota
from sluicegate_operator.quotas.model.targets import LimitField, Limits


def limit_of(quota: ConnectionQuota, limit: LimitField) -> int | None:
    spec = quota.spec
    return spec.highest_rate if limit is LimitField.RATE else spec.max_connections


Winners = Mapping[LimitField, tuple[int | None, str]]
"""The strictest value of each field, and the name of its quota."""


def winners_of(rivals: Sequence[ConnectionQuota]) -> Winners:
    """Return the strictest value of each limit among quotas on one target, with the quota that asks for it.

    Of two equal rates, that of the cluster wins, because no broker admits more by it. `rivals` are sorted oldest first,
    so the oldest of equals wins otherwise.
    """
    return {limit: _strictest(rivals, limit) for limit in LimitField}


def limits_of(quotas: Sequence[ConnectionQuota], winners: Winners) -> Limits:
    """Return the limits that are enforced on a target: the strictest ones of its `quotas`.

    `winners` is the result of `winners_of(quotas)`.
    """
    rate, winner = winners[LimitField.RATE]
    spec = next((quota.spec for quota in quotas if quota.name == winner), None)
    count = winners[LimitField.COUNT][0]
    return Limits(rate, count) if spec is None else Limits(rate, count, spec.adaptive, of_cluster=spec.is_of_cluster)


def _strictest(rivals: Sequence[ConnectionQuota], limit: LimitField) -> tuple[int | None, str]:
    values = [
        (value, limit is LimitField.COUNT or not quota.spec.is_of_cluster, quota.name)
        for quota in rivals
        if (value := limit_of(quota, limit)) is not None
    ]
    if not values:
        return None, ""
    value, _, name = min(values, key=lambda one: one[:2])
    return value, name
