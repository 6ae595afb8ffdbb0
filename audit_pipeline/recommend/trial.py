"""Replays recorded connections under suggested limits, and counts them by client. Pure; times are microseconds.

The limits of one kind are tried together, because none of them changes what another one does: listeners, addresses and
ranges of a kind share no connection. Each kind is tried alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Final, NamedTuple

from audit_pipeline.recommend.suggestion import LimitTarget
from audit_pipeline.results.arrivals.targets import (
    BESIDE,
    CIDR,
    IP,
    LISTENER,
    PART_LEAST,
    PER_ADDRESS,
    SHORT_S,
    STORM,
    USUAL,
)
from audit_pipeline.results.buckets import bucket_with
from audit_pipeline.what_if.attempts import Attempt, Course, Outcome
from audit_pipeline.what_if.limits import LimitsToTry
from audit_pipeline.what_if.recording import Recording
from audit_pipeline.what_if.replay import replay
from connection_limits.groups.connection_group import AddressGroupLimits
from connection_limits.settings import QuotaSettings, Strategy

_GROUP: Final = "recommended/"
_SECOND_US: Final = 1_000_000

Limits = Mapping[LimitTarget, int]
"""Rates by target; all of one cluster."""
StormSeconds = Callable[[str, int], bool]
"""Whether a second (since 1970) of a listener belongs to a storm."""


@dataclass(slots=True)
class Counted:
    """Outcomes of connections. `delays` counts those of accepted ones that waited, by bucket (results.buckets)."""

    outcomes: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))
    delays: dict[int, int] = field(default_factory=dict)
    delay_max_us: int = 0

    def add(self, course: Course, arrived_us: int) -> None:
        self.outcomes[course.outcome] += 1
        delay_us = course.at_us - arrived_us
        if course.outcome is Outcome.ACCEPTED and delay_us > 0:
            bucket = bucket_with(delay_us)
            self.delays[bucket] = self.delays.get(bucket, 0) + 1
            self.delay_max_us = max(self.delay_max_us, delay_us)


class TrialRow(NamedTuple):
    """The connections of one address that a suggested limit applies to, in the replay and as they really were."""

    kind: str
    target: str
    part: str
    client_ip: str
    client_id: str | None
    replayed: Counted
    recorded: Counted


def tried(recording: Recording, limits: Limits, is_storm: StormSeconds, from_us: int, to_us: int) -> list[TrialRow]:
    """Replay the recording under the limits of each kind, and count the connections that arrived in the time.

    The recording begins earlier, so that the rates are in use at `from_us`. Times are of the wall clock.
    """
    fleeting = _fleeting(recording.attempts, is_storm)
    rows: dict[tuple[LimitTarget, str, str], TrialRow] = {}
    for one in _kinds(limits):
        concerned = [attempt for attempt in recording.attempts if one.target_of(attempt) is not None]
        if not concerned:
            continue
        for attempt in concerned:
            attempt.replayed = None
        replay(recording._replace(attempts=concerned, early=[]), one.limits)
        for attempt, part in _parts(concerned, is_storm, fleeting):
            target, replayed = one.target_of(attempt), attempt.replayed
            if target is None or replayed is None or not from_us <= attempt.wall_us < to_us:
                continue
            key = target, part, attempt.address
            if key not in rows:
                client_id = recording.client_ids.get(attempt.address)
                rows[key] = TrialRow(target.kind, target.name, part, attempt.address, client_id, Counted(), Counted())
            rows[key].replayed.add(replayed, attempt.arrived_us)
            rows[key].recorded.add(attempt.recorded, attempt.arrived_us)
    return list(rows.values())


class _Tried(NamedTuple):
    """Limits that are tried together, and the one that applies to an attempt; None if none of them does."""

    limits: LimitsToTry
    target_of: Callable[[Attempt], LimitTarget | None]


def _kinds(limits: Limits) -> Iterator[_Tried]:
    settings = QuotaSettings(strategy=Strategy.TOKEN_BUCKET)
    listeners = {target.name: target for target in limits if target.kind == LISTENER}
    if listeners:
        rates = {name.lower(): (None, limits[target]) for name, target in listeners.items()}
        yield _Tried(LimitsToTry(settings, rates), lambda attempt: listeners.get(attempt.listener))
    addresses = {target.name: target for target in limits if target.kind == IP}
    if addresses:
        ips: dict[str | None, int] = {name: limits[target] for name, target in addresses.items()}
        yield _Tried(LimitsToTry(settings, ip_rates=ips), lambda attempt: addresses.get(attempt.address))
    ranges = {target.name: target for target in limits if target.kind == CIDR}
    for is_each in (False, True):
        chosen = {name: target for name, target in ranges.items() if (target.limit_is == PER_ADDRESS) is is_each}
        if chosen:
            groups = {
                f"{_GROUP}{name}": AddressGroupLimits(rate=limits[target], shared=not is_each)
                for name, target in chosen.items()
            }
            members = {f"{_GROUP}{name}": [name] for name in chosen}
            found = _InRanges(chosen)
            yield _Tried(LimitsToTry(settings, groups=groups, members=members), found.target_of)


class _InRanges:
    """Finds the range of an address; the ranges do not overlap. Owns what it has found."""

    def __init__(self, ranges: Mapping[str, LimitTarget]) -> None:
        self._ranges = [(ip_network(name), target) for name, target in ranges.items()]
        self._known: dict[str, LimitTarget | None] = {}

    def target_of(self, attempt: Attempt) -> LimitTarget | None:
        address = attempt.address
        if address not in self._known:
            self._known[address] = self._find(address)
        return self._known[address]

    def _find(self, address: str) -> LimitTarget | None:
        try:
            found = ip_address(address)
        except ValueError:
            return None
        return next((target for network, target in self._ranges if found in network), None)


def _fleeting(attempts: Sequence[Attempt], is_storm: StormSeconds) -> set[tuple[str, str]]:
    """Return the pairs of listener and address that take part in storms: most connections there end or are rejected."""
    balance: dict[tuple[str, str], int] = {}
    came: dict[tuple[str, str], int] = {}
    for attempt in attempts:
        if is_storm(attempt.listener, attempt.wall_us // _SECOND_US):
            is_short = attempt.open_us is not None and attempt.open_us < SHORT_S * _SECOND_US
            place = attempt.listener, attempt.address
            is_fleeting = is_short or attempt.recorded.outcome is not Outcome.ACCEPTED
            balance[place] = balance.get(place, 0) + (1 if is_fleeting else -1)
            came[place] = came.get(place, 0) + 1
    return {place for place, found in balance.items() if found >= 0 and came[place] >= PART_LEAST}


def _parts(
    attempts: Iterable[Attempt], is_storm: StormSeconds, fleeting: set[tuple[str, str]]
) -> Iterator[tuple[Attempt, str]]:
    """Yield replayed attempts with their part.

    A connection is beside a storm also after its seconds, while clients of the storm still wait in front of it.
    """
    until_us: dict[str, int] = {}
    for attempt in attempts:
        replayed = attempt.replayed
        if not is_storm(attempt.listener, attempt.wall_us // _SECOND_US):
            is_behind = attempt.arrived_us < until_us.get(attempt.listener, 0)
            yield attempt, BESIDE if is_behind else USUAL
            continue
        if replayed is not None:
            until_us[attempt.listener] = max(until_us.get(attempt.listener, 0), replayed.at_us)
        yield attempt, STORM if (attempt.listener, attempt.address) in fleeting else BESIDE
