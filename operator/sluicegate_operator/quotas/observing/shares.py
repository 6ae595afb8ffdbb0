"""The shares of brokers in a rate of the cluster, from answers to GET /connection-limits and /connection-quotas. Pure.

Shares follow demand, several times a second. A status that followed each change would notify all its watchers each
time. So it keeps its values until one of them has changed by a factor of 1.5, or a state has changed. Then it gets all
present values, because only those of one moment add up to the rate.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import floor, log10
from typing import Any

from sluicegate_operator.api.models.parts.broker_shares import SHARES_MAX, BrokerShare, BrokerShares, ShareState

_KEPT = 1.5
"""Values are written again if one is larger or smaller than the written one by this factor."""
_LITTLE_DEMAND = 1.0
"""Connections a second. All smaller demands count as equal."""
_DIGITS = 3
"""Significant digits of a written value."""
_STATE_LENGTH_MAX = 32
WORDS_MAX = 5
"""Maximum number of brokers that an Event names."""


@dataclass(frozen=True, slots=True)
class ReportedShare:
    """A broker's share in a rate of the cluster, in connections a second.

    - `rate`: that of all brokers together; `share`: what this broker may admit of it now.
    - `demand`: what clients attempt at this broker, with those that wait.
    - `age_s`: seconds since the broker sent the last report that the controller has answered; None before the first.
    - `state`: the broker's word: granted, reserve, waiting or equal (docs/reference/connection-groups.md).
    """

    rate: float
    share: float
    demand: float
    age_s: float | None
    state: str

    @classmethod
    def of(cls, limit: Mapping[str, Any]) -> "ReportedShare | None":
        """Parse the field `cluster` of a limit; None for a rate of each broker, and from a broker without the field.

        Raises KeyError, TypeError and ValueError for any other document.
        """
        cluster = limit.get("cluster")
        if cluster is None:
            return None
        age_s = cluster["age_s"]
        return cls(
            float(cluster["rate"]),
            float(cluster["share"]),
            float(cluster["demand"]),
            None if age_s is None else float(age_s),
            str(cluster["state"]),
        )

    @property
    def shown_state(self) -> str:
        """The state as a status has it: `granted` is Granted."""
        return self.state.capitalize()[:_STATE_LENGTH_MAX]


def shares_of_groups(page: Mapping[str, Any]) -> dict[str, ReportedShare]:
    """Return the shares in an answer to GET /connection-quotas, by connection group. Raises ValueError for others."""
    try:
        found = {name: ReportedShare.of(group) for name, group in page["groups"].items()}
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"the broker's response has no shares of groups: {error!r}") from error
    return {name: share for name, share in found.items() if share is not None}


def shares(
    reported: Mapping[int, ReportedShare], brokers: Collection[int], old: BrokerShares | None, now: datetime
) -> BrokerShares | None:
    """Return the status of the shares of `brokers`, those that were asked; None if there are none.

    A broker that has not `reported` a share is NotReported. `old` is the present status.
    """
    before = {one.broker_id: one for one in old.brokers} if old is not None else {}
    listed = sorted(brokers)[:SHARES_MAX]
    if not listed:
        return None
    found = [_share(broker_id, reported.get(broker_id), before.get(broker_id), now) for broker_id in listed]
    if old is not None and listed == sorted(before) and all(_is_near(one, before[one.broker_id]) for one in found):
        return old
    return BrokerShares(summary=_summary(found), brokers=found)


def _share(broker_id: int, reported: ReportedShare | None, before: BrokerShare | None, now: datetime) -> BrokerShare:
    state = ShareState.NOT_REPORTED.value if reported is None else reported.shown_state
    since = before.since if before is not None and before.state == state else now
    if reported is None:
        return BrokerShare(broker_id=broker_id, state=state, since=since)
    share, demand = _rounded(reported.share), _rounded(reported.demand)
    return BrokerShare(broker_id=broker_id, share=share, demand=demand, state=state, since=since)


def _is_near(now: BrokerShare, written: BrokerShare) -> bool:
    if now.state != written.state or (now.share is None) != (written.share is None):
        return False
    little = max(now.demand or 0.0, written.demand or 0.0) < _LITTLE_DEMAND
    return _are_close(now.share, written.share) and (little or _are_close(now.demand, written.demand))


def _are_close(one: float | None, other: float | None) -> bool:
    return one == other or (bool(one and other) and (other or 0) / _KEPT < (one or 0) < (other or 0) * _KEPT)


def _rounded(exact: float) -> float:
    return round(exact, _DIGITS - 1 - floor(log10(exact))) if exact > 0 else 0.0


def _summary(found: Collection[BrokerShare]) -> str:
    known = [one.share for one in found if one.share is not None]
    if not known:
        return ""
    lowest, highest = min(known), max(known)
    words = f"{lowest:.10g}/s" if lowest == highest else f"{lowest:.10g} to {highest:.10g}/s"
    reserves = sum(one.state == ShareState.RESERVE for one in found)
    return f"{words}, {reserves} on reserve" if reserves else words


def reserve_words(before: BrokerShares | None, after: BrokerShares | None) -> tuple[str, str]:
    """Return the brokers that have fallen to their reserve since the status `before`, and those that have left it.

    Both are words for an Event; empty for no broker.
    """
    old = _on_reserve(before)
    new = _on_reserve(after)
    granted = (
        {one.broker_id for one in after.brokers if one.state == ShareState.GRANTED} if after is not None else set()
    )
    fallen = [f"broker {broker_id} ({share:.10g}/s)" for broker_id, share in new.items() if broker_id not in old]
    left = [f"broker {broker_id}" for broker_id in old if broker_id in granted]
    return _listed(fallen), _listed(left)


def _on_reserve(found: BrokerShares | None) -> dict[int, float]:
    if found is None:
        return {}
    return {one.broker_id: one.share or 0.0 for one in found.brokers if one.state == ShareState.RESERVE}


def _listed(words: list[str]) -> str:
    return ", ".join(words[:WORDS_MAX] + ["..."] * (len(words) > WORDS_MAX))
