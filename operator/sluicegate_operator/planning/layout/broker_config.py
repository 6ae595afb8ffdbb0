"""Dynamic configuration of bundled and external brokers: the dynamic keys of spec.config, and tags.

The keys are set as the default of all brokers, so an offline broker learns them when it reconnects. A broker's own
override of a key that the spec sets was made by another client and is removed. Tags that depend on a broker's node are
set as that broker's own configuration. Connection limits are keys of `quotas` and never touched here.

The plan is level-based, also for keys that left the spec: `managed` is every key that the operator has set and not yet
observed to be gone. It is in the cluster's status and is written there before a key is set, so no crash can lose one. A
key that another client set dynamically is in no status and stays.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sluicegate_operator.api.configs.config_keys import DYNAMIC_CONFIG_KEYS
from sluicegate_operator.api.models.parts.broker_tags import TAG_PREFIX
from sluicegate_operator.planning.layout.canonical import same_broker_value
from sluicegate_operator.planning.limits.limits import ObservedLimits, SetBrokerConfigs


@dataclass(frozen=True, slots=True)
class OwnTags:
    """Tags with a separate value for each broker.

    - `keys`: the keys of these tags.
    - `values`: the wanted values by broker. A broker loses each of `keys` that its values do not name; a broker that is
      not in `values` keeps what it has.
    - `brokers`: all wanted brokers, and those that are to be removed and still exist. A removed tag stays managed until
      each of them was observed without it.
    """

    keys: frozenset[str] = frozenset()
    values: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    brokers: frozenset[int] = frozenset()


NO_OWN_TAGS = OwnTags()


@dataclass(frozen=True, slots=True)
class BrokerConfigPlan:
    """The changes of the brokers' dynamic configuration.

    `managed` is written to status.dynamicConfigKeys before `actions` are carried out. `lagging`: observed brokers that
    lack a part of the configuration, with that part.
    """

    actions: tuple[SetBrokerConfigs, ...]
    managed: tuple[str, ...]
    lagging: Mapping[int, str]


def plan_broker_config(
    desired: Mapping[str, str],
    observed: Mapping[int, ObservedLimits],
    managed: Collection[str] = (),
    own: OwnTags = NO_OWN_TAGS,
    *,
    bundled: bool = True,
) -> BrokerConfigPlan:
    """Plan the changes that bring all observed brokers to `desired` and `own`.

    `desired` is cluster_layout.dynamic_config; without `bundled`, each of its keys counts as dynamic. `observed` has
    the dynamic configuration of each broker that answered, with at least the keys in `desired`, `own` and `managed`. If
    no broker was observed, nothing is changed and every managed key stays managed. Raises ValueError for a static key.
    """
    if strange := sorted(key for key in desired if bundled and not _is_dynamic(key)):
        raise ValueError(
            f"{', '.join(strange)}: the key is not dynamic, so it belongs into the nodes' configuration file"
        )
    released = {key for key in {*managed, *own.keys} if key not in desired and (not bundled or _is_dynamic(key))}
    stale = {
        key: value
        for key, value in sorted(desired.items())
        if not all(same_broker_value(key, view.default.get(key), value) for view in observed.values())
    }
    surplus = {key for key in released if any(key in view.default for view in observed.values())}
    mine = {broker_id: _Own(broker_id, view, released, own) for broker_id, view in sorted(observed.items())}
    actions = []
    if stale or surplus:
        actions.append(SetBrokerConfigs(None, stale, tuple(sorted(surplus))))
    for broker_id, view in sorted(observed.items()):
        hidden = mine[broker_id].surplus | (view.own.keys() & desired.keys())
        if mine[broker_id].stale or hidden:
            actions.append(SetBrokerConfigs(broker_id, mine[broker_id].stale, tuple(sorted(hidden))))
    remembered = surplus.union(*(found.surplus for found in mine.values())) if observed else released
    if not own.brokers <= observed.keys():
        remembered |= {key for key in released if _is_tag(key)}
    return BrokerConfigPlan(
        tuple(actions),
        tuple(sorted({*desired, *own.keys, *remembered})),
        _lagging(desired, observed, released, mine),
    )


class _Own:
    """The changes of one broker's own tags: values to set, and keys to delete."""

    def __init__(self, broker_id: int, view: ObservedLimits, released: Collection[str], own: OwnTags) -> None:
        wanted = own.values.get(broker_id)
        gone = {key for key in released if _is_tag(key)} - own.keys
        if wanted is not None:
            gone |= own.keys - wanted.keys()
        self.stale = {key: value for key, value in (wanted or {}).items() if view.own.get(key) != value}
        self.surplus = gone & view.own.keys()


def _lagging(
    desired: Mapping[str, str],
    observed: Mapping[int, ObservedLimits],
    released: Collection[str],
    mine: Mapping[int, _Own],
) -> dict[int, str]:
    lagging = {}
    for broker_id, view in sorted(observed.items()):
        differing = (key for key, value in desired.items() if not same_broker_value(key, view.in_force(key), value))
        lacking = {key: desired[key] for key in differing} | mine[broker_id].stale
        left = {key for key in released if key in view.default} | mine[broker_id].surplus
        missing = [f"{key} is not {value}" for key, value in sorted(lacking.items())]
        missing += [f"{key} is still set" for key in sorted(left)]
        if missing:
            lagging[broker_id] = "; ".join(missing)
    return lagging


def _is_dynamic(key: str) -> bool:
    return key in DYNAMIC_CONFIG_KEYS or _is_tag(key)


def _is_tag(key: str) -> bool:
    return key.startswith(TAG_PREFIX)
