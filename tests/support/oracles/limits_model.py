"""A model of how brokers apply changes of limits, to check plans, and a diff of all limits at once."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from sluicegate_operator.planning.limits.connection_groups import ANYBODY, CONNECTION_GROUP, membership
from sluicegate_operator.planning.limits.limits import (
    Action,
    DesiredLimits,
    Lifted,
    LimitKey,
    ObservedLimits,
    QuotaKey,
    SetBrokerConfigs,
    SetQuota,
    changes_of,
    missing,
)


def group_of(key: LimitKey) -> str | None:
    """The group that a limit belongs to; None for a limit outside groups."""
    if isinstance(key, str):
        return None
    kind, name = key[0][0]
    return name if kind == CONNECTION_GROUP else None


def member_of(key: LimitKey) -> str | None:
    """The member that a key of a group is about; None if the limit is the group's own."""
    return key[0][1][1] if not isinstance(key, str) and len(key[0]) > 1 else None


def listed(group: str, *members: str) -> dict[QuotaKey, float]:
    """Members of a group without a statement about their owners."""
    return membership(group, dict.fromkeys(members, ANYBODY))


def diff_limits(
    desired: DesiredLimits, observed: Mapping[int, ObservedLimits], released: Collection[LimitKey] = ()
) -> list[Action]:
    """Actions that bring every observed broker to `desired`; empty if all are there.

    `released` matters for a cluster that is not exclusively ours: our limits that are no longer wanted, to be lifted
    there.
    """
    lifted = Lifted(desired.exclusive, frozenset(released))
    return changes_of(desired, {broker_id: missing(desired, seen, lifted) for broker_id, seen in observed.items()})


def apply_actions(actions: Iterable[Action], observed: Mapping[int, ObservedLimits]) -> dict[int, ObservedLimits]:
    """The limits that brokers report after they carried out `actions`."""
    after = dict(observed)
    for action in actions:
        for broker_id, view in after.items():
            after[broker_id] = _applied(action, broker_id, view)
    return after


def _applied(action: Action, broker_id: int, view: ObservedLimits) -> ObservedLimits:
    if isinstance(action, SetQuota):
        quotas = {key: value for key, value in view.quotas.items() if key != action.key}
        return replace(view, quotas=quotas if action.value is None else quotas | {action.key: action.value})
    if action.broker_id is None:
        return replace(view, default=_altered(view.default, action))
    if action.broker_id == broker_id:
        return replace(view, own=_altered(view.own, action))
    return view


def _altered(configs: Mapping[str, str], action: SetBrokerConfigs) -> dict[str, str]:
    return {key: value for key, value in configs.items() if key not in action.delete} | dict(action.set)
