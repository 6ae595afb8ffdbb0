"""Reads from brokers how many connections ConnectionQuotas throttle now, and how many mode Observe would throttle.

The brokers of a cluster are asked every `PACE_S`, and every `HOLDING_PACE_S` while a limit throttles connections. One
reconcile changes at most CHANGES_MAX statuses because of such figures; later ones change the others.
"""

import asyncio
import json
import logging
from bisect import bisect
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from sluicegate_operator.api.queues import Queue
from sluicegate_operator.engine.context.context import QuotaContext, now
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.engine.work_queue import Again
from sluicegate_operator.fleet.kafka.http_get import http_get
from sluicegate_operator.planning.limits.connection_groups import group_name
from sluicegate_operator.quotas.model.targets import QuotaName
from sluicegate_operator.quotas.observing.adapted import adapted
from sluicegate_operator.quotas.observing.holding import (
    BrokerReadings,
    Key,
    Reading,
    holding,
    key_of,
    quotas_of,
    reading,
    throttles,
)
from sluicegate_operator.quotas.observing.observed_counts import Counts, observed, would_hold
from sluicegate_operator.quotas.observing.shares import ReportedShare, shares, shares_of_groups
from sluicegate_operator.quotas.state.known import KnownQuota
from sluicegate_operator.quotas.state.state import GovernedQuotas
from sluicegate_operator.quotas.status import has_shares, is_throttled_by

log = logging.getLogger(__name__)

PACE_S = 30.0
HOLDING_PACE_S = 10.0
"""Interval while a limit throttles connections."""
ASK_TIMEOUT_S = 3.0
PAGES_MAX = 100
CHANGES_MAX = 100
LIMITS_WITH_THROTTLED = "/connection-limits?held=true"

HttpPlaces = Mapping[int, tuple[str, int]]
"""Host and HTTP port of each broker of a cluster, by id."""


@dataclass(frozen=True, slots=True)
class GroupReading:
    """The answer of one broker about its connection groups.

    `counts`: connections that groups of mode Observe would have held. `shares`: those in rates of the cluster.
    """

    counts: Counts
    shares: Mapping[Key, ReportedShare]


@dataclass(slots=True)
class _Looks:
    """The newest reading of each broker of a cluster.

    `quiet_since_s` has, for each quota with a figure in its status, the time since which it has throttled nothing.
    `shares_until`: the quota with scope Cluster whose shares were updated last.
    """

    next_s: float = 0.0
    readings: dict[int, Reading] = field(default_factory=dict)
    quiet_since_s: dict[QuotaName, float] = field(default_factory=dict)
    shares_until: QuotaName = ""

    def quiet_s(self, name: QuotaName, *, throttles: bool) -> float:
        """Return the seconds since the quota last throttled a connection; 0 if `throttles` is True."""
        now_s = asyncio.get_running_loop().time()
        if throttles:
            self.quiet_since_s[name] = now_s
        return now_s - self.quiet_since_s.setdefault(name, now_s)


class ObservedReconciler:
    """Updates what the statuses of quotas show of brokers' answers, such as throttled connections.

    It asks the brokers of a cluster at most once in each interval, however often it is called.
    """

    def __init__(
        self,
        context: QuotaContext,
        governed: Mapping[ClusterKey, GovernedQuotas],
        places_of: Callable[[ClusterKey], Awaitable[HttpPlaces]],
    ) -> None:
        """`places_of` returns no places for a cluster that was deleted."""
        self._context = context
        self._governed = governed
        self._places_of = places_of
        self._looks: defaultdict[ClusterKey, _Looks] = defaultdict(_Looks)

    async def reconcile(self, key: ClusterKey) -> Again:
        governed = self._governed.get(key)
        needed = governed is not None and (governed.observing or governed.enforces)
        looks, now_s = self._looks[key], asyncio.get_running_loop().time()
        if needed and (left_s := looks.next_s - now_s) > 0:
            return left_s
        looks.next_s = now_s + PACE_S
        places = await self._places_of(key) if needed else {}
        if governed is None or not (places or (needed and _shows_holding(governed))):
            del self._looks[key]
            return None
        groups = await self._groups(governed, places)
        limits = await self._limits(key, governed, places)
        changed = [*self._would_hold(key, governed, groups), *self._holding(key, governed, limits)]
        changed += [*_adapted(key[0], governed, limits), *self._shares(key, governed, limits, groups)]
        if changed:
            for _ in governed.assess(self._context.first_seen, now(), names=changed):
                await asyncio.sleep(0)
            self._context.mark(Queue.STATUSES, key)
        pace_s = HOLDING_PACE_S if looks.quiet_since_s else PACE_S
        looks.next_s = now_s + pace_s
        return pace_s

    async def _groups(self, governed: GovernedQuotas, places: HttpPlaces) -> Mapping[int, GroupReading | None]:
        """Read the connection groups of all brokers; empty if no status has figures of them."""
        of_cluster = (known.claim for known in governed.quotas.values() if _is_of_cluster(known))
        if not governed.observing and not any(claim.target.is_group for claim in of_cluster):
            return {}
        answers = await asyncio.gather(*(self._group_reading(broker_id, place) for broker_id, place in places.items()))
        return dict(zip(places, answers, strict=True))

    async def _limits(
        self, key: ClusterKey, governed: GovernedQuotas, places: HttpPlaces
    ) -> Mapping[int, Reading | None]:
        """Read the enforced limits of all brokers; empty if no status has figures of them."""
        if not governed.enforces and not _shows_holding(governed):
            return {}
        answers = await asyncio.gather(*(self._reading(key, broker_id, place) for broker_id, place in places.items()))
        return dict(zip(places, answers, strict=True))

    def _would_hold(
        self, key: ClusterKey, governed: GovernedQuotas, groups: Mapping[int, GroupReading | None]
    ) -> Sequence[QuotaName]:
        """Update quotas with mode Observe. Returns the names of those whose counts have changed."""
        answers = [None if one is None else one.counts for one in groups.values()]
        changed = []
        for name in governed.observing if groups else ():
            known = governed.quotas.get(name)
            if known is None:
                # The quota was deleted while brokers were asked.
                continue
            found = observed(group_name(key[0], name), answers, known.observed, now())
            if found != known.observed:
                known.observed = found
                changed.append(name)
        return changed

    def _holding(
        self, key: ClusterKey, governed: GovernedQuotas, limits: Mapping[int, Reading | None]
    ) -> Sequence[QuotaName]:
        """Update enforced quotas. Returns the names of those whose figure has changed."""
        looks = self._looks[key]
        if not governed.enforces and not _shows_holding(governed):
            looks.quiet_since_s.clear()
            return ()
        seen = [BrokerReadings(after, looks.readings.get(broker_id)) for broker_id, after in limits.items()]
        looks.readings = {
            broker_id: after or looks.readings[broker_id]
            for broker_id, after in limits.items()
            if after is not None or broker_id in looks.readings
        }
        changed: list[str] = []
        for name, of in _concerned(key[0], governed, seen).items():
            before = governed.quotas[name].holding
            found = None
            if of is not None:
                found = holding(of, seen, before, looks.quiet_s(name, throttles=throttles(of, seen)), now())
            if found != before:
                if len(changed) >= CHANGES_MAX:
                    continue
                governed.quotas[name].holding = found
                changed.append(name)
            if found is None:
                looks.quiet_since_s.pop(name, None)
        return changed

    def _shares(
        self,
        key: ClusterKey,
        governed: GovernedQuotas,
        limits: Mapping[int, Reading | None],
        groups: Mapping[int, GroupReading | None],
    ) -> Sequence[QuotaName]:
        """Update quotas with scope Cluster. Returns the names of those whose shares have changed.

        If more than CHANGES_MAX have changed, the next call begins with the others.
        """
        looks, changed = self._looks[key], list[QuotaName]()
        names = sorted(name for name, known in governed.quotas.items() if _is_of_cluster(known) or known.shares)
        for name in [*names[bisect(names, looks.shares_until) :], *names[: bisect(names, looks.shares_until)]]:
            if len(changed) >= CHANGES_MAX:
                break
            looks.shares_until = name
            known, ruling = governed.quotas[name], governed.plan.of.get(name)
            if ruling is None:
                continue
            verdict, found = ruling.verdicts[name], None
            if has_shares(known.quota, verdict):
                answers = groups if verdict.target.is_group else limits
                of = key_of(key[0], verdict.target, name)
                said = {b: answer.shares[of] for b, answer in answers.items() if answer and of in answer.shares}
                found = shares(said, answers, known.shares, now())
            if found != known.shares:
                known.shares = found
                changed.append(name)
        return changed

    async def _reading(self, key: ClusterKey, broker_id: int, place: tuple[str, int]) -> Reading | None:
        """Read one broker; None if it gives no such answer, as a broker of an earlier release."""
        try:
            return reading(await _json(place, LIMITS_WITH_THROTTLED), asyncio.get_running_loop().time())
        except (OSError, ValueError) as error:
            why = str(error) or "no answer in time"
            if self._context.is_news(why, "holding", key, broker_id):
                log.info("broker %d of %s did not report what its limits delay or reject: %s", broker_id, key[1], why)
        return None

    async def _group_reading(self, broker_id: int, place: tuple[str, int]) -> GroupReading | None:
        """Read the connection groups of one broker; None if it does not answer, which statuses then show."""
        counts: dict[str, Mapping[str, int]] = {}
        found: dict[Key, ReportedShare] = {}
        after = ""
        try:
            for _ in range(PAGES_MAX):
                page = await _json(place, f"/connection-quotas?{urlencode({'after': after})}")
                counts |= would_hold(page)
                found |= {("groups", name): share for name, share in shares_of_groups(page).items()}
                after = page["next"]
                if after is None:
                    return GroupReading(counts, found)
        except (OSError, ValueError) as error:
            log.info("broker %d did not report its connection groups: %s", broker_id, str(error) or "no answer in time")
        return None


def _adapted(namespace: str, governed: GovernedQuotas, answers: Mapping[int, Reading | None]) -> Iterator[QuotaName]:
    """Update quotas whose rate adapts, and yield the names of those whose rates have changed."""
    silent = [broker_id for broker_id, answer in answers.items() if answer is None]
    for name, known in governed.quotas.items():
        ruling = governed.plan.of.get(name)
        if (known.quota.spec.adaptive is None and known.adaptive is None) or ruling is None:
            continue
        verdict, found = ruling.verdicts[name], None
        if known.quota.spec.adaptive is not None and is_throttled_by(known.quota, verdict):
            of = key_of(namespace, verdict.target, name)
            reported = {b: answer.adaptive[of] for b, answer in answers.items() if answer and of in answer.adaptive}
            found = adapted(reported, silent, known.adaptive, now())
        if found != known.adaptive:
            known.adaptive = found
            yield name


def _is_of_cluster(known: KnownQuota) -> bool:
    return known.quota.spec.is_of_cluster


def _shows_holding(governed: GovernedQuotas) -> bool:
    """Return whether the status of any quota has a figure, or will get one."""
    return any(known.holding is not None for known in governed.quotas.values())


async def _json(place: tuple[str, int], path: str) -> Any:
    """Return the JSON of a GET of this path. Raises OSError, and ValueError for any other answer."""
    answer = await http_get(place, path, timeout_s=ASK_TIMEOUT_S)
    if answer.status != 200:
        raise ValueError(f"HTTP {answer.status}")
    return json.loads(answer.body)


def _concerned(
    namespace: str, governed: GovernedQuotas, looks: Sequence[BrokerReadings]
) -> dict[QuotaName, Key | None]:
    """Return quotas with a figure in a broker's answer or in their status, with the brokers' keys of their targets.

    The key is None if the quota throttles no connections any more.
    """
    found: dict[QuotaName, Key | None] = {
        name: None for name, known in governed.quotas.items() if known.holding is not None
    }
    found |= dict.fromkeys(_with_figures(namespace, governed, looks))
    for name in found:
        ruling = governed.plan.of.get(name)
        if ruling is not None and is_throttled_by(governed.quotas[name].quota, ruling.verdicts[name]):
            found[name] = key_of(namespace, ruling.verdicts[name].target, name)
    return found


def _with_figures(namespace: str, governed: GovernedQuotas, looks: Sequence[BrokerReadings]) -> Iterator[str]:
    keys = {
        key
        for look in looks
        if look.after is not None
        for key, throttled in look.after.throttled.items()
        if throttled.total
    }
    for key in sorted(keys):
        for name in quotas_of(namespace, key, governed.plan):
            if name in governed.quotas:
                yield name
