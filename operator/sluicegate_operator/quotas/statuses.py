"""Writes the statuses of ConnectionQuotas in a queue of its own, so that limits never wait for a status.

A status is computed when it is written. It is not written where it equals that of the API server. Events follow the
statuses.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping

from sluicegate_operator.api.connection_quota import ConnectionQuota, ConnectionQuotaStatus
from sluicegate_operator.api.metadata import Condition
from sluicegate_operator.engine.context import STATUS_WRITERS_MAX, QuotaContext, now
from sluicegate_operator.engine.snapshot import ClusterKey
from sluicegate_operator.engine.work_queue import Again
from sluicegate_operator.kube.errors import KubeError
from sluicegate_operator.quotas.model import Outcome
from sluicegate_operator.quotas.state import GovernedQuotas, KnownQuota
from sluicegate_operator.quotas.status import WAITING

log = logging.getLogger(__name__)

STATUSES_A_TURN = 10
"""Statuses that are computed in one turn of the event loop: about 5 ms."""
EVENTS_WAITING_MAX = 20
"""Most Events that wait for a cluster. If more quotas come into force together, their statuses alone say so."""

_Told = tuple[ConnectionQuota, str]

FIRST, LAST = (False, 0.0), (True, 0.0)
"""Ranks before all other quotas, and after all new ones."""


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
        writers = (self._write_waiting(governed, events) for _ in range(min(len(governed.waiting), STATUS_WRITERS_MAX)))
        failed = [ended for ended in await asyncio.gather(*writers, return_exceptions=True) if ended is not None]
        while events and not governed.waiting:
            quota, message = events.pop()
            await self._context.post(quota, "Normal", "Enforced", message)
        if failed:
            raise failed[0]
        return 0.0 if governed.waiting else None

    async def _write_waiting(self, governed: GovernedQuotas, events: "deque[_Told]") -> None:
        number = 0
        while (name := governed.waiting.take()) is not None:
            number += 1
            if number % STATUSES_A_TURN == 0:
                await asyncio.sleep(0)
            known = governed.quotas.get(name)
            if known is None:
                continue
            if known.is_being_written:
                # It is queued again below: the order of two concurrent writes is not known.
                continue
            quota = known.quota
            status = governed.status(name, self._context.first_seen.of(quota), now())
            if status is None:
                continue
            known.written, known.is_being_written, rank = known.assessment, True, FIRST
            try:
                written = await self._context.write_status(quota, status)
                if written is None:
                    known.was_sent = False
                    continue
            except KubeError as error:
                if error.retriable:
                    known.written, rank = None, LAST
                    raise
                if error.status != 404 and self._context.is_news(str(error), "status", quota.metadata.uid):
                    log.warning("the status of ConnectionQuota %s is refused: %s", name, error)
                continue
            finally:
                known.is_being_written = False
                if known.written is not known.assessment:
                    governed.waiting.add(name, rank)
            governed.note_written(quota, written)
            await self._tell(known, quota, status, events)

    async def _tell(
        self, known: KnownQuota, quota: ConnectionQuota, status: ConnectionQuotaStatus, events: "deque[_Told]"
    ) -> None:
        if status.enforced_at is not None and status.enforced_at != quota.status.enforced_at:
            if status.apply_seconds is not None:
                self._context.figures.note_enforced_after(status.apply_seconds)
            if known.was_sent:
                # Limits that brokers had already when the quota was first seen get no Event.
                known.was_sent = False
                took = f" {status.apply_seconds:g} s after it was changed" if status.apply_seconds is not None else ""
                events.append((quota, f"in force on {status.brokers} brokers{took}"))
        ready, before = status.condition("Ready"), quota.status.condition("Ready")
        if ready is not None and ready.reason == Outcome.EXPIRED and _is_news(known, before):
            known.was_sent = False
            await self._context.post(quota, "Normal", ready.reason, ready.message)
        stalled = status.condition("Stalled")
        before = quota.status.condition("Stalled")
        if stalled is not None and stalled.status == "True" and (before is None or before.reason != stalled.reason):
            await self._context.post(quota, "Warning", stalled.reason, ready.message if ready else stalled.message)


def _is_news(known: KnownQuota, before: Condition | None) -> bool:
    """Whether a limit that has expired was lifted just now. A quota that waited for brokers to answer, as all do at the
    beginning of a term, was lifted just now only if a change was sent to brokers."""
    if before is None or known.was_sent:
        return before is None or before.reason != Outcome.EXPIRED
    return before.reason not in (Outcome.EXPIRED, *WAITING)
