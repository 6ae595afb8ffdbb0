"""The status of an ObserverPlugin, derived from its verdict and from each broker's report on the observer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sluicegate_operator.api.models.observer_plugin import (
    STATES_MAX,
    BrokerObserverState,
    ObserverPlugin,
    ObserverPluginStatus,
)
from sluicegate_operator.planning.observers.observers import (
    FAILED,
    LOADED,
    LOADING,
    SUSPENDED,
    UNKNOWN,
    ObserverReport,
    PluginOutcome,
    PluginVerdict,
)
from sluicegate_operator.planning.status.conditions import (
    Progress,
    conditions,
    observed_generation,
    ready,
    stalled,
    working,
)

_WORST_FIRST = (FAILED, SUSPENDED, UNKNOWN, LOADING, LOADED)
_MESSAGE_MAX = 1024


@dataclass(frozen=True, slots=True)
class PluginReports:
    """The brokers' reports on one observer.

    `expected` brokers should have the observer; `reports` has those that answered. `refused`: the brokers' message
    about configuration that they refuse; `error`: why other brokers did not answer.
    """

    expected: Sequence[int] = ()
    reports: Mapping[int, ObserverReport] = field(default_factory=dict)
    refused: str = ""
    error: str = ""
    rolling: bool = False
    """Whether brokers are being restarted to get missing code."""
    note: str = ""
    """A note for users about an observer that is loaded."""

    @property
    def by_broker(self) -> list[tuple[int, ObserverReport]]:
        """Return the reports of all `expected` brokers, the worst first."""
        silent = ObserverReport(UNKNOWN, "the broker does not answer")
        found = [(broker_id, self.reports.get(broker_id, silent)) for broker_id in self.expected]
        return sorted(found, key=lambda pair: (_rank(pair[1].state), pair[0]))

    @property
    def loaded(self) -> int:
        return sum(report.state == LOADED for report in self.reports.values())

    @property
    def counted(self) -> str:
        return f"{self.loaded}/{len(self.expected)}"

    @property
    def settled(self) -> bool:
        """Return whether no report is in a state that passes within seconds."""
        return len(self.reports) == len(self.expected) and all(
            report.state in (LOADED, FAILED) for report in self.reports.values()
        )


def _rank(state: str) -> int:
    return _WORST_FIRST.index(state) if state in _WORST_FIRST else 0


def observer_status(
    plugin: ObserverPlugin, verdict: PluginVerdict, reports: PluginReports, now: datetime
) -> ObserverPluginStatus:
    """Return the new status; the caller compares it with plugin.status before it writes it."""
    old, progress = plugin.status, _progress(verdict, reports)
    accepted = verdict.outcome is PluginOutcome.ACCEPTED
    rows = reports.by_broker if accepted else []
    return ObserverPluginStatus(
        observed_generation=observed_generation(plugin, old, progress),
        conditions=conditions(plugin, old, progress.findings, now),
        observes=plugin.observes,
        state=rows[0][1].state if rows else ("" if accepted else verdict.outcome.value),
        delivery=("Roll" if reports.rolling else "Live") if accepted else "",
        brokers=reports.counted if accepted else "",
        broker_states=tuple(
            BrokerObserverState(broker_id=broker_id, state=report.state, message=report.message[:_MESSAGE_MAX])
            for broker_id, report in rows[:STATES_MAX]
        ),
    )


def remark(status: ObserverPluginStatus) -> str:
    """Return a broker's message about the observer, from its status; empty without one."""
    said = (one for one in status.broker_states if one.state in (LOADED, SUSPENDED) and one.message)
    return next((f"broker {one.broker_id}: {one.message}" for one in said), "")


def _progress(verdict: PluginVerdict, reports: PluginReports) -> Progress:
    if verdict.outcome is PluginOutcome.DISABLED:
        return ready(PluginOutcome.DISABLED, verdict.message)
    if verdict.outcome is not PluginOutcome.ACCEPTED:
        return stalled(verdict.outcome, verdict.message)
    if reports.refused:
        return stalled("Refused", reports.refused)
    if not reports.expected:
        return working("WaitingForBrokers", "the cluster has no brokers yet")
    broker_id, worst = reports.by_broker[0]
    if worst.state == LOADED:
        loaded = f"loaded by all {len(reports.expected)} brokers"
        return ready(LOADED, _sentence(reports, f"{loaded}; {reports.note}" if reports.note else loaded))
    said = _sentence(reports, f"loaded by {reports.counted} brokers; broker {broker_id}: {worst.message}")
    if worst.state == FAILED and reports.rolling:
        return working("Rolling", f"{said}; brokers are being restarted, which may install the missing code")
    if worst.state == FAILED:
        return stalled(FAILED, f"{said}; requests are served nevertheless")
    if worst.state == UNKNOWN:
        return working("Applying", f"{said} ({reports.error})" if reports.error else said)
    return working(worst.state, said)


def _sentence(reports: PluginReports, said: str) -> str:
    """Append a message of a broker that has loaded the observer, such as errors or dropped events."""
    remarks = [(broker_id, r.message) for broker_id, r in reports.by_broker if r.state == LOADED and r.message]
    return f"{said}; broker {remarks[0][0]}: {remarks[0][1]}" if remarks else said
