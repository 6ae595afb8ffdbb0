"""Writes the statuses of ConnectionQuotas in a separate queue, so that limits never wait for a status.

A status is computed when it is written. It is not written where it equals that of the API server. Events follow the
statuses. One quota whose status is refused keeps no other waiting, and is tried again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from sluicegate_operator.api.models.connection_quota import ConnectionQuota, ConnectionQuotaStatus
from sluicegate_operator.api.schema.metadata import Condition
from sluicegate_operator.engine.context.context import STATUS_WRITERS_MAX, QuotaContext, now
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.engine.work_queue import REFUSED_RETRY, Again
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.quotas.model.targets import QuotaName
from sluicegate_operator.quotas.model.verdicts import QuotaOutcome
from sluicegate_operator.quotas.observing.adapted import moved_words
from sluicegate_operator.quotas.observing.shares import reserve_words
from sluicegate_operator.quotas.state.known import KnownQuota
from sluicegate_operator.quotas.state.state import GovernedQuotas
from sluicegate_operator.quotas.status import WAITING

log = logging.getLogger(__name__)

STATUSES_PER_SLICE = 10
"""Number of statuses that are computed in one iteration of the event loop: about 5 ms."""
EVENTS_WAITING_MAX = 20
"""Maximum number of Events that wait for a cluster.

If more quotas come into force together, only their statuses show it.
"""

REFUSALS_MAX = 500
"""Statuses that may be refused for now in one reconcile: while a webhook is down, all of thousands are."""
REFUSED_AGAIN_S = REFUSED_RETRY.max_s
"""Delay before a status that was refused for good is tried again."""

RATE_ADAPTED = "RateAdapted"
ON_RESERVE, SHARES_GRANTED = "OnReserve", "SharesGranted"

_Told = tuple[ConnectionQuota, str]

FIRST, LAST = (False, 0.0), (True, 0.0)
"""Ranks before all other quotas, and after all new ones."""


class QuotaStatuses:
    """Writes the due statuses of ConnectionQuotas, of one cluster at a time and several at once."""

    def __init__(self, context: QuotaContext, governed: Mapping[ClusterKey, GovernedQuotas]) -> None:
        self._context = context
        self._governed = governed

    async def reconcile(self, key: ClusterKey) -> Again:
        governed = self._governed.get(key)
        if governed is None:
            return None
        _queue_refused(governed)
        if not governed.statuses.waiting:
            return _next_try_s(governed)
        tried = _Tried()
        count = min(len(governed.statuses.waiting), STATUS_WRITERS_MAX)
        writers = (self._write_waiting(governed, tried) for _ in range(count))
        failed = [ended for ended in await asyncio.gather(*writers, return_exceptions=True) if ended is not None]
        while tried.events and not governed.statuses.waiting:
            quota, message = tried.events.pop()
            await self._context.post(quota, "Normal", "Enforced", message)
        for name in tried.again:
            governed.statuses.waiting.add(name, LAST)
        if failed:
            raise failed[0]
        tried.refusals.raise_first()
        return 0.0 if governed.statuses.waiting else _next_try_s(governed)

    async def _write_waiting(self, governed: GovernedQuotas, tried: "_Tried") -> None:
        number = 0
        while len(tried.again) < REFUSALS_MAX and (name := governed.statuses.waiting.take()) is not None:
            if name in tried.again:
                continue
            number += 1
            if number % STATUSES_PER_SLICE == 0:
                await asyncio.sleep(0)
            known = governed.quotas.get(name)
            if known is None:
                continue
            if known.is_being_written:
                # The quota is queued again below: the order of two concurrent writes is not known.
                continue
            quota = known.quota
            status = governed.status(name, self._context.first_seen.of(quota), now())
            if status is None:
                continue
            known.written, known.is_being_written = known.assessment, True
            try:
                written = await self._context.write_status(quota, status)
                if written is None:
                    known.was_sent = False
                    continue
            except KubeError as error:
                self._note_refusal(governed, known, error, tried)
                continue
            finally:
                known.is_being_written = False
                if known.written is not known.assessment and name not in tried.again:
                    governed.statuses.waiting.add(name, FIRST)
            governed.note_written(quota, written)
            await self._post_events(known, quota, status, tried.events)

    def _note_refusal(self, governed: GovernedQuotas, known: KnownQuota, error: KubeError, tried: "_Tried") -> None:
        """Schedule another write of a refused status.

        It is written soon if the refusal may pass, or else after REFUSED_AGAIN_S. Raises `error` if it concerns all
        quotas.
        """
        quota = known.quota
        if error.retriable:
            known.written = None
            tried.again.add(quota.name)
            tried.refusals.keep(error)
            return
        governed.statuses.refused[quota.name] = asyncio.get_running_loop().time() + REFUSED_AGAIN_S
        if error.status != 404 and self._context.is_news(str(error), "status", quota.metadata.uid):
            log.warning("the API server refused the status of ConnectionQuota %s: %s", quota.name, error)

    async def _post_events(
        self, known: KnownQuota, quota: ConnectionQuota, status: ConnectionQuotaStatus, events: "deque[_Told]"
    ) -> None:
        if status.enforced_at is not None and status.enforced_at != quota.status.enforced_at:
            if status.apply_seconds is not None:
                self._context.figures.note_enforced_after(status.apply_seconds)
            if known.was_sent:
                # Limits that brokers had already when the quota was first seen get no Event.
                known.was_sent = False
                took = f" {status.apply_seconds:g} s after it was changed" if status.apply_seconds is not None else ""
                events.append((quota, f"enforced on {status.brokers} brokers{took}"))
        if moved := moved_words(quota.status.adaptive, status.adaptive):
            await self._context.post(quota, "Normal", RATE_ADAPTED, f"the rate of new connections has moved: {moved}")
        fallen, left = reserve_words(quota.status.shares, status.shares)
        if fallen:
            why = "the controller does not answer these brokers, which admit at most their reserve of the rate"
            await self._context.post(quota, "Warning", ON_RESERVE, f"{why}: {fallen}")
        if left:
            await self._context.post(
                quota, "Normal", SHARES_GRANTED, f"the controller has granted shares again: {left}"
            )
        ready, before = status.condition("Ready"), quota.status.condition("Ready")
        if ready is not None and ready.reason == QuotaOutcome.EXPIRED and _is_news(known, before):
            known.was_sent = False
            await self._context.post(quota, "Normal", ready.reason, ready.message)
        stalled = status.condition("Stalled")
        before = quota.status.condition("Stalled")
        if stalled is not None and stalled.status == "True" and (before is None or before.reason != stalled.reason):
            await self._context.post(quota, "Warning", stalled.reason, ready.message if ready else stalled.message)


@dataclass(slots=True)
class _Tried:
    """Findings of one reconcile. `again`: quotas whose status is refused for now."""

    events: deque[_Told] = field(default_factory=lambda: deque(maxlen=EVENTS_WAITING_MAX))
    again: set[QuotaName] = field(default_factory=set)
    refusals: Refusals = field(default_factory=Refusals)


def _queue_refused(governed: GovernedQuotas) -> None:
    """Queue the quotas whose refused status is to be tried again now: a policy or a CRD may have changed."""
    now_s = asyncio.get_running_loop().time()
    for name in [name for name, at_s in governed.statuses.refused.items() if at_s <= now_s]:
        del governed.statuses.refused[name]
        if (known := governed.quotas.get(name)) is not None:
            known.written = None
            governed.statuses.waiting.add(name, LAST)


def _next_try_s(governed: GovernedQuotas) -> float | None:
    """Seconds until a refused status is tried again; None if there is none."""
    now_s = asyncio.get_running_loop().time()
    return max(0.0, min(governed.statuses.refused.values()) - now_s) if governed.statuses.refused else None


def _is_news(known: KnownQuota, before: Condition | None) -> bool:
    """Return whether a limit that has expired was lifted just now.

    A quota that waited for brokers to answer, as all do at the beginning of a term, was lifted just now only if a
    change was sent to brokers.
    """
    if before is None or known.was_sent:
        return before is None or before.reason != QuotaOutcome.EXPIRED
    return before.reason not in (QuotaOutcome.EXPIRED, *WAITING)
