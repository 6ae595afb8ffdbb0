"""The observers of `sluicegate up`: kept as the ObserverPlugins say, and what is to be said of them."""

import asyncio
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from sluicegate_operator.api import ObserverPlugin
from sluicegate_operator.fleet.asking import BrokerPool
from sluicegate_operator.fleet.observers import enforce_observers, plugin_reports
from sluicegate_operator.planning.observer_status import observer_status
from sluicegate_operator.planning.observers import ObserverPlan

RETRY_S = 1.0
DEADLINE_S = 1.0
"""Limits are not kept waiting for an observer that loads slowly: it is looked at again."""


_NUMBER = re.compile(r"\d+")


def _is_news(before: tuple[bool, str], now: tuple[bool, str]) -> bool:
    """Counts of errors grow with each request: nobody wants to be told each second that there is one more."""
    return (before[0], _NUMBER.sub("", before[1])) != (now[0], _NUMBER.sub("", now[1]))


class LocalObservers:
    """Owns what was last said of each ObserverPlugin, and when each cluster is looked at again."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._told: dict[tuple[str, str], tuple[bool, str]] = {}
        self._due_s: dict[str, float] = {}

    def is_due(self, cluster: str, now_s: float) -> bool:
        return now_s >= self._due_s.get(cluster, now_s)

    async def enforce(
        self, cluster: str, pool: BrokerPool, plan: ObserverPlan, plugins: Iterable[ObserverPlugin], resync_s: float
    ) -> None:
        result = await enforce_observers(pool, plan, deadline_s=DEADLINE_S)
        expected = [broker.broker_id for broker in pool.brokers]
        told, settled = {}, not result.failures
        for plugin in plugins:
            verdict = plan.verdicts.get(plugin.name)
            if verdict is None or plugin.spec.cluster_ref.name != cluster:
                continue
            reports = plugin_reports(plan, verdict, expected, result)
            settled = settled and reports.settled
            status = observer_status(plugin, verdict, reports, datetime.now(UTC))
            ready = status.condition("Ready")
            assert ready is not None
            told[cluster, plugin.name] = (ready.status == "True", ready.message)
        for key, (is_ready, message) in told.items():
            if key not in self._told or _is_news(self._told[key], (is_ready, message)):
                self._say(f"ObserverPlugin {key[1]}: {message}")
        self._told = {key: said for key, said in self._told.items() if key[0] != cluster} | told
        wait_s = resync_s if settled and not result.unseen else RETRY_S
        self._due_s[cluster] = asyncio.get_running_loop().time() + wait_s

    def forget(self, cluster: str) -> None:
        self._due_s.pop(cluster, None)
        self._told = {key: said for key, said in self._told.items() if key[0] != cluster}

    def judge(self, cluster: str, plugin: str) -> dict[str, Any]:
        """Ready or not, and a sentence."""
        is_ready, message = self._told.get((cluster, plugin), (False, "the brokers have not been asked yet"))
        return {"ready": is_ready, "message": message}
