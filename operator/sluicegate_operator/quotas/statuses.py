"""Writes the statuses of ConnectionQuotas in a queue of its own, so that limits never wait for a status.

A status is computed when it is written, so it has every change since it was queued. One that is right by then is not
written. Events follow the statuses.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from sluicegate_operator.api.connection_quota import ConnectionQuota, ConnectionQuotaStatus
from sluicegate_operator.api.metadata import Condition
from sluicegate_operator.engine.context import STATUS_WRITERS_MAX, QuotaContext, now
from sluicegate_operator.engine.snapshot import ClusterKey
from sluicegate_operator.engine.work_queue import Again
from sluicegate_operator.kube.errors import KubeError
from sluicegate_operator.quotas.model import Outcome
from sluicegate_operator.quotas.state import GovernedQuotas
from sluicegate_operator.quotas.status import WAITING

log = logging.getLogger(__name__)

STATUSES_A_TURN = 10
"""So many are worked out before others have the event loop: about 5 ms."""
EVENTS_WAITING_MAX = 20
"""Most Events that wait for a cluster. If more quotas come into force together, their statuses alone say so."""

_Told = tuple[ConnectionQuota, str]

FIRST = (False, 0.0)
"""Before those that were told already."""


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """Quotas whose status is being written, and of those the ones that are due `again`. They are written one after the
    other, as the order of two concurrent writes is not known."""

    names: set[str] = field(default_factory=set)
    again: set[str] = field(default_factory=set)


class QuotaStatuses:
    """Writes the statuses that wait, of one cluster at a time and several at once."""

    def __init__(self, context: QuotaContext, governed: Mapping[ClusterKey, GovernedQuotas]) -> None:
        self._context = context
        self._governed = governed

    async def reconcile(self, key: ClusterKey) -> Again:
        governed = self._governed.get(key)
        if governed is None or not governed.waiting:
            return None
        events: deque[_Told] = deque(maxlen=EVENTS_WAITING_MAX)
        under_way = _UnderWay()
        writers = (
            self._write_waiting(governed, events, under_way)
            for _ in range(min(len(governed.waiting), STATUS_WRITERS_MAX))
        )
        failed = [ended for ended in await asyncio.gather(*writers, return_exceptions=True) if ended is not None]
        while events and not governed.waiting:
            quota, message = events.pop()
            await self._context.post(quota, "Normal", "Enforced", message)
        if failed:
            raise failed[0]
        return 0.0 if governed.waiting else None

    async def _write_waiting(self, governed: GovernedQuotas, events: "deque[_Told]", under_way: "_UnderWay") -> None:
        number = 0
        while (name := governed.waiting.take()) is not None:
            number += 1
            if number % STATUSES_A_TURN == 0:
                await asyncio.sleep(0)
            quota = governed.planner.quotas.get(name)
            if quota is None:
                continue
            if name in under_way.names:
                under_way.again.add(name)
                continue
            status = governed.status(name, self._context.first_seen.of(quota), now())
            if status is None:
                continue
            under_way.names.add(name)
            try:
                written = await self._context.write_status(quota, status)
                if written is None:
                    governed.news.discard(name)
                    continue
            except KubeError as error:
                if error.retriable:
                    governed.waiting.add(name, (True, 0.0))
                    raise
                if error.status != 404 and self._context.is_news(str(error), "status", quota.metadata.uid):
                    log.warning("the status of ConnectionQuota %s is refused: %s", name, error)
                continue
            finally:
                under_way.names.discard(name)
                if name in under_way.again:
                    under_way.again.discard(name)
                    governed.waiting.add(name, FIRST)
            governed.note_written(quota, written)
            await self._tell(governed, quota, status, events)

    async def _tell(
        self, governed: GovernedQuotas, quota: ConnectionQuota, status: ConnectionQuotaStatus, events: "deque[_Told]"
    ) -> None:
        if status.enforced_at is not None and status.enforced_at != quota.status.enforced_at:
            if status.apply_seconds is not None:
                self._context.figures.note_enforced_after(status.apply_seconds)
            if quota.name in governed.news:
                # What brokers had already when it was first seen is no news.
                governed.news.discard(quota.name)
                took = f" {status.apply_seconds:g} s after it was changed" if status.apply_seconds is not None else ""
                events.append((quota, f"in force on {status.brokers} brokers{took}"))
        ready, before = status.condition("Ready"), quota.status.condition("Ready")
        if ready is not None and ready.reason == Outcome.EXPIRED and _is_news(governed, quota, before):
            governed.news.discard(quota.name)
            await self._context.post(quota, "Normal", ready.reason, ready.message)
        stalled = status.condition("Stalled")
        before = quota.status.condition("Stalled")
        if stalled is not None and stalled.status == "True" and (before is None or before.reason != stalled.reason):
            await self._context.post(quota, "Warning", stalled.reason, ready.message if ready else stalled.message)


def _is_news(governed: GovernedQuotas, quota: ConnectionQuota, before: Condition | None) -> bool:
    """Whether a limit that has expired was lifted just now. A quota that waited for brokers to answer, as all do at the
    beginning of a term, was lifted just now only if a change was sent to brokers."""
    if before is None or quota.name in governed.news:
        return before is None or before.reason != Outcome.EXPIRED
    return before.reason not in (Outcome.EXPIRED, *WAITING)
