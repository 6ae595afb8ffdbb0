"""The order of changes of limits: brokers have a new limit on an address before the operator lifts the former one.

A limit of an address has one of three forms: the client quota of the address, its entry in the shared value of counts,
and a connection group. A ConnectionQuota whose scope or target changes moves its limit from one form to another. If
brokers refuse the new form, they keep the former one.
"""

from collections.abc import Collection, Iterable, Sequence

from sluicegate_operator.planning.limits.connection_groups import CONNECTION_GROUP
from sluicegate_operator.planning.limits.limits import (
    COUNT_PER_IP_OVERRIDES,
    IP,
    Action,
    Entity,
    LimitKey,
    QuotaKey,
    SetBrokerConfigs,
    SetQuota,
)


def in_phases(actions: Sequence[Action]) -> list[list[Action]]:
    """Return the actions in phases. The caller sends a phase after brokers have answered the previous one.

    The result has one phase unless a limit may move. An entity is never split between two phases.
    """
    quotas = [action for action in actions if isinstance(action, SetQuota)]
    configs: list[Action] = [action for action in actions if isinstance(action, SetBrokerConfigs)]
    altered = {action.key[0] for action in quotas if action.value is not None}
    if not altered and not configs:
        return [list(actions)] if actions else []
    lifted = {action.key[0] for action in quotas if action.value is None} - altered
    last: list[Action] = []
    first: list[Action] = []
    for action in quotas:
        (last if lifted and _is_lifted(action.key[0], lifted) else first).append(action)
    counts = any(COUNT_PER_IP_OVERRIDES in action.keys for action in configs)
    if not last and not (counts and any(_group(action.key[0]) is not None for action in quotas)):
        return [list(actions)] if actions else []
    return [phase for phase in (first, configs, last) if phase]


def _is_lifted(entity: Entity, lifted: Collection[Entity]) -> bool:
    """Return whether an address, or a group with its members, loses limits. `lifted`: entities that get no value."""
    return entity in lifted and (_group(entity) is None or entity[:1] in lifted)


def kept_back(phase: Iterable[Action], sent: Iterable[Action], refused: Collection[LimitKey]) -> frozenset[QuotaKey]:
    """Return the keys of a `phase` that would lift limits of addresses whose new limits were refused.

    `sent`: the actions of all former phases; `refused`: the limits among them that brokers do not have.
    """
    entities = {key[0] for key in refused if not isinstance(key, str)}
    groups = {_group(entity) for entity in entities} - {None}
    told = {action.key[0] for action in sent if isinstance(action, SetQuota)}
    moving = entities | {entity for entity in told if _group(entity) in groups}
    addresses = {_address(entity) for entity in moving} - {None}
    lifts = [action.key for action in phase if isinstance(action, SetQuota) and action.value is None]
    with_them = {_group(key[0]) for key in lifts if _address(key[0]) in addresses} - {None}
    return frozenset(
        key
        for key in lifts
        if _group(key[0]) in with_them or (_group(key[0]) is None and _address(key[0]) in addresses)
    )


def _group(entity: Entity) -> str | None:
    """Return the connection group of an entity. Its component is the first, because components are sorted."""
    kind, name = entity[0]
    return name if kind == CONNECTION_GROUP else None


def _address(entity: Entity) -> str | None:
    """Return the address or range of an entity."""
    kind, name = entity[-1]
    return name if kind == IP else None
