"""Dynamic broker configuration of BrokerCluster.spec.config: what Kafka lets change while brokers run.

Set as the default of all brokers, so a broker that is away learns it when it comes back; a broker's own override of a
key that the spec sets is somebody's hand and is taken away. Limits of connections are `quotas`' keys and never touched
here.

Level-based, also for keys that left the spec: `managed` is every key that the operator has set and not yet seen gone.
It is kept in the cluster's status and written there before a key is set, so no crash can make the operator forget one;
a key that somebody else set dynamically is in no status and stays.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sluicegate_operator.api.config_keys import DYNAMIC_CONFIG_KEYS
from sluicegate_operator.planning.quotas import ObservedLimits, SetBrokerConfigs


@dataclass(frozen=True, slots=True)
class BrokerConfigPlan:
    """`managed` is written to status.dynamicConfigKeys before `actions` are carried out. `lagging`: brokers that were
    seen and do not have all of it yet, with what they lack."""

    actions: tuple[SetBrokerConfigs, ...]
    managed: tuple[str, ...]
    lagging: Mapping[int, str]


def plan_broker_config(
    desired: Mapping[str, str], observed: Mapping[int, ObservedLimits], managed: Collection[str] = ()
) -> BrokerConfigPlan:
    """`desired` is cluster_layout.dynamic_config. `observed`: what each broker that answered says of its dynamic
    configuration, of all keys in `desired` and `managed` at least. With no broker seen nothing is done and nothing
    forgotten."""
    if strange := sorted(key for key in desired if key not in DYNAMIC_CONFIG_KEYS):
        raise ValueError(f"{', '.join(strange)}: not dynamic, so it belongs into the file of the nodes")
    released = {key for key in managed if key not in desired and key in DYNAMIC_CONFIG_KEYS}
    stale = {
        key: value
        for key, value in sorted(desired.items())
        if any(view.default.get(key) != value for view in observed.values())
    }
    surplus = {key for key in released if any(key in view.default for view in observed.values())}
    actions = []
    if stale or surplus:
        actions.append(SetBrokerConfigs(None, stale, tuple(sorted(surplus))))
    for broker_id, view in sorted(observed.items()):
        if own := tuple(sorted(key for key in view.own if key in desired)):
            actions.append(SetBrokerConfigs(broker_id, {}, own))
    remembered = released if not observed else surplus
    return BrokerConfigPlan(
        tuple(actions), tuple(sorted({*desired, *remembered})), _lagging(desired, observed, released)
    )


def _lagging(
    desired: Mapping[str, str], observed: Mapping[int, ObservedLimits], released: Collection[str]
) -> dict[int, str]:
    lagging = {}
    for broker_id, view in sorted(observed.items()):
        missing = [f"{key} is not {value}" for key, value in sorted(desired.items()) if view.in_force(key) != value]
        missing += [f"{key} is still set" for key in sorted(released) if key in view.default]
        if missing:
            lagging[broker_id] = "; ".join(missing)
    return lagging
