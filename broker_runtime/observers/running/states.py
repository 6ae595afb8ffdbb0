"""The state of each configured observer, as DescribeConfigs and /metrics report it. Pure."""

from collections.abc import Mapping
from enum import StrEnum

from broker_runtime.config.keys.observers import OBSERVER_PREFIX, split_observer_key
from broker_runtime.exposition import MetricFamily


class ObserverState(StrEnum):
    """The state of a configured observer."""

    LOADING = "Loading"
    LOADED = "Loaded"
    SUSPENDED = "Suspended"
    """The observer is not called for a while, because its calls take too long."""
    FAILED = "Failed"
    """The observer could not be loaded, or not with its current configuration: then the previous one stays in force."""


States = Mapping[str, tuple[ObserverState, str]]
"""The state of each observer by name, with the reason if the observer is not called."""


def note_on(key: str, states: States) -> str | None:
    """Return the text to show with this configuration key; None without one.

    The text has the states of the observers that the key is about.
    """
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
        "sluicegate_observer_state", "gauge", "1 for the current state of the observer, 0 for the others"
    )
    for name, (now, _) in states.items():
        for each in ObserverState:
            family.add(each is now, observer=name, state=each.value)
    return family
