"""What has become of each observer that there is to be, as DescribeConfigs and /metrics tell it. Pure."""

from collections.abc import Mapping
from enum import StrEnum

from broker_runtime.config.observers import OBSERVER_PREFIX, split_observer_key
from broker_runtime.exposition import MetricFamily


class ObserverState(StrEnum):
    """What has become of an observer that there is to be."""

    LOADING = "Loading"
    LOADED = "Loaded"
    SUSPENDED = "Suspended"
    """Not called for a while, as its calls take too long."""
    FAILED = "Failed"
    """Not loaded, or not as it is to be now: then it goes on as it was."""


States = Mapping[str, tuple[ObserverState, str]]
"""By the name of the observer, with the reason where it is not called."""


def note_on(key: str, states: States) -> str | None:
    """What is to be said with this configuration key: what has become of the observers that it is about."""
    if not key.startswith(OBSERVER_PREFIX):
        return None
    about = split_observer_key(key)
    names = list(states) if about is None else [about[0]]
    lines = [f"{name}: {states[name][0]}{_because(states[name][1])}" for name in names if name in states]
    return "On this broker: " + "; ".join(lines) if lines else None


def _because(why: str) -> str:
    return f" ({why})" if why else ""


def state_family(states: States) -> MetricFamily:
    family = MetricFamily(
        "sluicegate_observer_state", "gauge", "1 for what has become of the observer, 0 for what has not"
    )
    for name, (now, _) in states.items():
        for each in ObserverState:
            family.add(each is now, observer=name, state=each.value)
    return family
