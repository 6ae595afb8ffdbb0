"""The metrics of each observer: its state, its calls, their duration and their outcome. Pure."""

from collections.abc import Callable, Iterator, Mapping

from broker_runtime.exposition import MetricFamily, gauge
from broker_runtime.observers.running.in_service import ObserverInService, ObserverMetrics
from broker_runtime.observers.running.states import States, state_family

_PREFIX = "sluicegate_observer_"


def observer_families(
    states: States, services: Mapping[str, ObserverInService], left_behind: int
) -> Iterator[MetricFamily]:
    yield state_family(states)
    counters: tuple[tuple[str, str, Callable[[ObserverMetrics], float]], ...] = (
        ("calls_total", "Calls of the observer", lambda figures: figures.calls),
        (
            "call_seconds_total",
            "Time for which calls of the observer have blocked the event loop",
            lambda figures: figures.time_s,
        ),
        ("errors_total", "Calls of the observer that have raised an exception", lambda figures: figures.errors),
        ("over_budget_total", "Calls that took longer than the observer's budget", lambda figures: figures.over_budget),
        (
            "suspensions_total",
            "How often the observer was suspended for calls over its budget",
            lambda figures: figures.suspensions,
        ),
        ("skipped_total", "Calls that the observer missed while it was suspended", lambda figures: figures.skipped),
    )
    for name, text, value in counters:
        family = MetricFamily(_PREFIX + name, "counter", text)
        for observer, service in services.items():
            family.add(value(service.figures), observer=observer)
        yield family
    dropped = MetricFamily(
        _PREFIX + "dropped_total", "counter", "Items that the observer dropped because its own queue was full"
    )
    for observer, service in services.items():
        lost = service.dropped
        if lost is not None:
            dropped.add(lost, observer=observer)
    yield dropped
    yield gauge(_PREFIX + "left_behind", "Threads of observers that have not ended in time", left_behind)
