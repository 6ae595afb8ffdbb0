"""How many connections a ConnectionQuota throttles now, from answers to GET /connection-limits?held=true. Pure.

A status keeps a figure that has changed little, and for a while one that has dropped to zero. If the status changed at
each reading, all of its watchers would be notified each time.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import floor, log10
from typing import Any

from sluicegate_operator.api.models.connection_quota import Holding
from sluicegate_operator.planning.limits.connection_groups import group_name
from sluicegate_operator.quotas.model.targets import TargetKey, TargetKind
from sluicegate_operator.quotas.observing.adapted import ReportedRate
from sluicegate_operator.quotas.observing.shares import ReportedShare
from sluicegate_operator.quotas.plan import QuotaPlan

SHARE_MIN = 0.01
"""A limit counts only if acceptors waited for it for at least this share of the time."""
QUIET_S = 60.0
"""A figure is removed after the limit has throttled nothing, or no broker has answered, for this time."""
_PERCENT_STEP = 5
_PERCENT_KEPT = 10
_RATE_KEPT = 1.5
"""A rate is written again if it is larger or smaller than the written one by this factor."""

Key = tuple[str, str]
"""The key of a figure in brokers' answers: a kind, and the name of the listener, the address or the group."""
_KINDS = {
    TargetKind.BROKER: "broker",
    TargetKind.LISTENER: "listeners",
    TargetKind.IP: "ips",
    TargetKind.DEFAULT_IP: "default_ip",
}
_TARGETS = {kind: target for target, kind in _KINDS.items()}


@dataclass(frozen=True, slots=True)
class ThrottledConnections:
    """The number of connections that a broker has throttled for one limit since it started.

    `blocked_share` is None for limits that block no acceptor.
    """

    total: int
    blocked_share: float | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One broker's answer about throttled connections, at a time of the event loop's clock.

    If not `complete`, some limits were left out.
    """

    at_s: float
    throttled: Mapping[Key, ThrottledConnections]
    complete: bool = True
    adaptive: Mapping[Key, ReportedRate] = field(default_factory=dict)
    """Rates that adapt, of the broker and of its listeners."""
    shares: Mapping[Key, ReportedShare] = field(default_factory=dict)
    """Shares in rates of the cluster, for the whole broker and for its listeners."""


@dataclass(frozen=True, slots=True)
class BrokerReadings:
    """The two newest answers of one broker about throttled connections.

    `after` is None if the broker did not answer the newest request.
    """

    after: Reading | None
    before: Reading | None = None


def key_of(namespace: str, target: TargetKey, quota: str) -> Key:
    """Return the key under which brokers report the throttled connections of an enforced quota."""
    if target.kind in _KINDS:
        return _KINDS[target.kind], target.name
    return "groups", group_name(namespace, quota)


def quotas_of(namespace: str, key: Key, plan: QuotaPlan) -> Collection[str]:
    """Return the names of the quotas whose limit a broker reports under this key."""
    kind, name = key
    if kind == "groups":
        of, _, quota = name.partition("/")
        return (quota,) if of == namespace else ()
    return plan.quotas_on(TargetKey(_TARGETS[kind], name))


def reading(document: Mapping[str, Any], at_s: float) -> Reading:
    """Parse a broker's answer about throttled connections. Raises ValueError for any other document."""
    try:
        throttled = {
            ("broker", ""): _of_acceptors(document["broker"]),
            ("default_ip", ""): ThrottledConnections(sum(map(int, document["default_ip"]["held"].values()))),
            **{("listeners", name): _of_acceptors(one) for name, one in document["listeners"].items()},
        }
        for kind in ("ips", "groups"):
            throttled |= {
                (kind, name): ThrottledConnections(sum(map(int, one["held"].values())))
                for name, one in document[kind].items()
            }
        limits = {("broker", ""): document["broker"]}
        limits |= {("listeners", name): one for name, one in document["listeners"].items()}
        rates = {key: ReportedRate.of(one) for key, one in limits.items() if one.get("adaptive") is not None}
        shares = {key: share for key, one in limits.items() if (share := ReportedShare.of(one)) is not None}
        return Reading(at_s, throttled, complete=not document["left_out"], adaptive=rates, shares=shares)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"the broker's response has no limits: {error!r}") from error


def _of_acceptors(document: Mapping[str, Any]) -> ThrottledConnections:
    return ThrottledConnections(sum(map(int, document["held"].values())), float(document["blocked_share"]))


def holding(
    key: Key, looks: Sequence[BrokerReadings], old: Holding | None, quiet_s: float, now: datetime
) -> Holding | None:
    """Return how many connections all brokers together throttle for one limit, as the quota's status shows it.

    None if the limit throttles nothing, or if no broker has answered for QUIET_S. `old`: the figure that was last
    written. `quiet_s`: seconds since the limit was last seen to throttle connections.
    """
    answered = [look for look in looks if look.after is not None]
    if not answered:
        return old if quiet_s < QUIET_S else None
    if old is not None and not is_known(key, answered):
        return old
    share = max((_share(key, look) for look in answered), default=0.0)
    percent = _percent(share, old.blocked_percent if old else None) if key[0] in ("broker", "listeners") else None
    rate = _rate(sum(_per_second(key, look) for look in answered), old.held_per_second if old else 0.0)
    if not (percent or (percent is None and rate)):
        return old if old is not None and quiet_s < QUIET_S else None
    found = Holding(
        summary=f"{percent}% of time" if percent is not None else f"{rate:g}/s",
        blocked_percent=percent,
        held_per_second=rate,
        brokers=f"{len(answered)}/{len(looks)}",
        since=now if old is None else old.since,
    )
    return old if found == old else found


def throttles(key: Key, looks: Sequence[BrokerReadings]) -> bool:
    """Return whether the limit throttled a connection between the two answers of any broker."""
    answered = [look for look in looks if look.after is not None]
    return any(_share(key, look) >= SHARE_MIN or (_blocks_nobody(key) and _per_second(key, look)) for look in answered)


def is_known(key: Key, looks: Sequence[BrokerReadings]) -> bool:
    """Return whether the answers of brokers suffice to tell how much the limit throttles.

    A rate needs two answers of one broker.
    """
    for look in looks:
        if look.after is None or (key not in look.after.throttled and not look.after.complete):
            continue
        if not _blocks_nobody(key) or look.before is not None:
            return True
    return False


def _blocks_nobody(key: Key) -> bool:
    """Return whether brokers refuse connections over this limit, so that no other connection waits."""
    return key[0] not in ("broker", "listeners")


def _share(key: Key, look: BrokerReadings) -> float:
    found = look.after.throttled.get(key) if look.after is not None else None
    return 0.0 if found is None or found.blocked_share is None else found.blocked_share


def _per_second(key: Key, look: BrokerReadings) -> float:
    if look.after is None or look.before is None or look.after.at_s <= look.before.at_s:
        return 0.0
    nothing = ThrottledConnections(0)
    after, before = look.after.throttled.get(key, nothing).total, look.before.throttled.get(key, nothing).total
    # The counters of a restarted broker begin at zero.
    since = after - before if after >= before else after
    return since / (look.after.at_s - look.before.at_s)


def _percent(share: float, old: int | None) -> int:
    if share < SHARE_MIN:
        return 0
    exact = 100 * share
    if old is not None and abs(exact - old) <= _PERCENT_KEPT:
        return old
    return max(1, _PERCENT_STEP * round(exact / _PERCENT_STEP))


def _rate(exact: float, old: float) -> float:
    """Return `exact` rounded to two digits, or `old` if they differ little."""
    if exact <= 0:
        return 0.0
    if old and old / _RATE_KEPT <= exact <= old * _RATE_KEPT:
        return old
    digits = 1 - floor(log10(exact))
    return round(exact, digits)
