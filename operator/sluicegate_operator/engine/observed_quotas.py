"""Asks brokers what ConnectionQuotas with mode Observe would have held, while there are such, for their statuses."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import urlencode

from sluicegate_operator.engine.context import QuotaContext, now
from sluicegate_operator.engine.governed_quotas import GovernedQuotas
from sluicegate_operator.engine.quotas import STATUSES
from sluicegate_operator.engine.snapshot import ClusterKey
from sluicegate_operator.engine.work_queue import Again
from sluicegate_operator.fleet.http_get import http_get
from sluicegate_operator.planning.connection_groups import group_name
from sluicegate_operator.planning.observed_counts import Counts, observed, would_hold

log = logging.getLogger(__name__)

PACE_S = 30.0
ASK_TIMEOUT_S = 3.0
PAGES_MAX = 100

HttpPlaces = Mapping[int, tuple[str, int]]
"""Where the brokers of a cluster answer over HTTP, by id."""


class ObservedReconciler:
    """One look at the brokers of a cluster every half a minute, however often it is asked to."""

    def __init__(
        self,
        context: QuotaContext,
        governed: Mapping[ClusterKey, GovernedQuotas],
        places_of: Callable[[ClusterKey], Awaitable[HttpPlaces]],
    ) -> None:
        """`places_of` has none for a cluster that has gone."""
        self._context = context
        self._governed = governed
        self._places_of = places_of
        self._next_look_s: dict[ClusterKey, float] = {}

    async def reconcile(self, key: ClusterKey) -> Again:
        governed = self._governed.get(key)
        names = governed.observing if governed is not None else ()
        now_s = asyncio.get_running_loop().time()
        if names and (left_s := self._next_look_s.get(key, 0.0) - now_s) > 0:
            return left_s
        self._next_look_s[key] = now_s + PACE_S
        places = await self._places_of(key) if names else {}
        if governed is None or not places:
            self._next_look_s.pop(key, None)
            return None
        answers = await asyncio.gather(*(self._ask(broker_id, place) for broker_id, place in places.items()))
        changed = []
        for name in names:
            before = governed.observed_of(name)
            found = observed(group_name(key[0], name), answers, before, now())
            if found != before:
                governed.observed[name] = found
                changed.append(name)
        if changed:
            for _ in governed.mark(changed, self._context.first_seen, now()):
                await asyncio.sleep(0)
            self._context.mark(STATUSES, key)
        return PACE_S

    async def _ask(self, broker_id: int, place: tuple[str, int]) -> Counts | None:
        """None where it gives no answer: its counts are missing then, and status.observed.brokers says so."""
        counts: dict[str, Mapping[str, int]] = {}
        after = ""
        try:
            for _ in range(PAGES_MAX):
                path = f"/connection-quotas?{urlencode({'after': after})}"
                answer = await http_get(place, path, timeout_s=ASK_TIMEOUT_S)
                if answer.status != 200:
                    raise ValueError(f"HTTP {answer.status}")
                page = json.loads(answer.body)
                counts |= would_hold(page)
                after = page["next"]
                if after is None:
                    return counts
        except (OSError, ValueError) as error:
            log.info("broker %d does not say what it observes: %s", broker_id, str(error) or "no answer in time")
        return None
