"""What `sluicegate up` says of observers: each change, and no count that has grown by one."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluicegate_operator.api import ObserverPlugin, parse_resource
from sluicegate_operator.cli import local_observers
from sluicegate_operator.planning.observer_status import PluginReports
from sluicegate_operator.planning.observers import ObserverPlan, ObserverReport, PluginOutcome, PluginVerdict
from tests.support.bad_manifests import observer


async def test_a_count_that_grows_is_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = parse_resource(observer("orders"))
    assert isinstance(plugin, ObserverPlugin)
    verdict = PluginVerdict("orders", PluginOutcome.ACCEPTED)
    plan = cast(ObserverPlan, SimpleNamespace(verdicts={"orders": verdict}))
    pool: Any = SimpleNamespace(brokers=[SimpleNamespace(broker_id=0)])
    reports: list[ObserverReport] = []

    async def enforced(*_: object, **__: object) -> Any:
        return SimpleNamespace(failures=(), unseen=())

    monkeypatch.setattr(local_observers, "enforce_observers", enforced)
    monkeypatch.setattr(local_observers, "plugin_reports", lambda *_: PluginReports((0,), {0: reports[-1]}))
    said: list[str] = []
    observers = local_observers.LocalObservers(said.append)
    for state, message in (
        ("Loaded", "1 errors, the last: KeyError: 'x'"),
        ("Loaded", "99 errors, the last: KeyError: 'x'"),
        ("Suspended", "its calls take longer than its budget; for 3 s more"),
        ("Suspended", "its calls take longer than its budget; for 2 s more"),
        ("Failed", "ValueError: another word"),
    ):
        reports.append(ObserverReport(state, message))
        await observers.enforce("shop", pool, plan, [plugin], 60.0)
    assert [line.rpartition("; ")[0] if "s more" in line else line for line in said] == [
        "ObserverPlugin orders: loaded by all 1 brokers; broker 0: 1 errors, the last: KeyError: 'x'",
        "ObserverPlugin orders: loaded by 0/1 brokers; broker 0: its calls take longer than its budget",
        "ObserverPlugin orders: loaded by 0/1 brokers; broker 0: ValueError: another word; requests are served all the "
        "same",
    ]
    assert "ValueError: another word" in observers.judge("shop", "orders")["message"]
