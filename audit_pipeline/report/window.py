"""The times of a report: what is shown, and which two stretches of the same length are compared. Pure.

Times are microseconds since 1970 (UTC), stretches are half-open.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from audit_pipeline.errors import BadUseError
from audit_pipeline.patterns import fits

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US
WINDOW_US = 10 * MINUTE_US
"""Length in microseconds of the windows of the tables."""

POINTS_MAX = 180
"""Maximum number of points of a line over time."""
_BY_MINUTES_US = 3 * HOUR_US
"""Longer stretches are shown in windows of ten minutes, like those of the tables."""
_STEPS_US = (
    MINUTE_US,
    *(minutes * MINUTE_US for minutes in (10, 20, 30)),
    *(hours * HOUR_US for hours in (1, 2, 3, 6, 12, 24)),
)
_BEGUN_LATE = 100
"""A stretch may lack at most this fraction of its beginning: one in 100."""
_SHORTER_US = (
    *(hours * HOUR_US for hours in (12, 6, 3, 1)),
    *(minutes * MINUTE_US for minutes in (30, 10)),
)


@dataclass(frozen=True, slots=True)
class Span:
    """A period from a time to just before another."""

    from_us: int
    to_us: int

    @property
    def length_us(self) -> int:
        return self.to_us - self.from_us

    @property
    def first_day(self) -> date:
        return day_of(self.from_us)

    @property
    def last_day(self) -> date:
        return day_of(max(self.from_us, self.to_us - 1))

    def days(self) -> Iterator[date]:
        for at_us in range(self.from_us - self.from_us % DAY_US, self.to_us, DAY_US):
            yield day_of(at_us)

    def earlier(self, by_us: int) -> "Span":
        return Span(self.from_us - by_us, self.to_us - by_us)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The wanted content of a report: its time and its clusters.

    The time is the last `days` days, or from `from_us` to just before `to_us`. `days` has no effect with `from_us`.
    `cluster` is an ID or a name, or its beginning and a star. None is no limit. `cluster_names` are by ID; the page
    shows them instead.
    """

    days: int = 7
    from_us: int | None = None
    to_us: int | None = None
    cluster: str | None = None
    cluster_names: Mapping[str, str] = field(default_factory=dict)

    def has_cluster(self, cluster_id: str) -> bool:
        return fits(self.cluster, cluster_id) or fits(self.cluster, self.cluster_names.get(cluster_id))


@dataclass(frozen=True, slots=True)
class Windows:
    """The time spans of a report.

    - `covered`: the time from the first to the last event in the audit log.
    - `last`, `before`: the two periods that are compared; None if the log is too short.
    - `grain_us`: the resolution of numbers over time.
    - `step_us`: the distance of two points, a multiple of `grain_us`.
    - `coarse_step_us`: the distance of two points of a table that has a row only for each ten minutes.
    """

    covered: Span
    shown: Span
    last: Span | None
    before: Span | None
    grain_us: int
    step_us: int

    @property
    def coarse_step_us(self) -> int:
        return max(self.step_us, WINDOW_US)


def windows(first_us: int, last_us: int, wanted: Wanted) -> Windows:
    """Return the time spans of a report on a log with these first and last events.

    Raises BadUseError if the log has none of the wanted time.
    """
    covered = Span(first_us, last_us + 1)
    shown = _shown(covered, wanted)
    grain_us = MINUTE_US if shown.length_us <= _BY_MINUTES_US else 10 * MINUTE_US
    step_us = next(
        (each for each in _STEPS_US if each >= grain_us and shown.length_us / each < POINTS_MAX),
        DAY_US * -(-shown.length_us // (DAY_US * POINTS_MAX)),
    )
    end_us = shown.to_us - shown.to_us % WINDOW_US
    if wanted.from_us is None:
        last, before = _compared(first_us, end_us, wanted.days) or (None, None)
    else:
        last, before = _compared_once(first_us, wanted.from_us - wanted.from_us % WINDOW_US, end_us) or (None, None)
    return Windows(covered, shown, last, before, grain_us, step_us)


def _shown(covered: Span, wanted: Wanted) -> Span:
    to_us = covered.to_us if wanted.to_us is None else min(covered.to_us, wanted.to_us)
    from_us = _days_back(to_us - 1, wanted.days - 1) if wanted.from_us is None else wanted.from_us
    shown = Span(max(covered.from_us, from_us), to_us)
    if shown.length_us <= 0:
        begin, end = (
            f"{datetime.fromtimestamp(us // SECOND_US, UTC):%Y-%m-%dT%H:%M}" for us in (covered.from_us, covered.to_us)
        )
        raise BadUseError(f"the results have events from {begin} to {end} UTC: give a --from and --to in this time")
    return shown


def _compared_once(first_us: int, from_us: int, end_us: int) -> tuple[Span, Span] | None:
    """Return a time that was asked for and the time of the same length before it."""
    last = Span(from_us, end_us)
    before = last.earlier(last.length_us)
    return (last, before) if last.length_us > 0 and _is_covered(before, first_us) else None


def _compared(first_us: int, end_us: int, days: int) -> tuple[Span, Span] | None:
    """Return the longest pair: days begin at midnight, and the rest of an unfinished last day counts in neither."""
    for count in range(days, 0, -1):
        last = Span(_days_back(end_us - 1, count - 1), end_us)
        before = last.earlier(count * DAY_US)
        if _is_covered(before, first_us):
            return last, before
    for length_us in _SHORTER_US:
        last = Span(end_us - length_us, end_us)
        before = last.earlier(length_us)
        if _is_covered(before, first_us):
            return last, before
    return None


def _is_covered(span: Span, first_us: int) -> bool:
    return first_us <= span.from_us + span.length_us // _BEGUN_LATE


def _days_back(at_us: int, days: int) -> int:
    return at_us - at_us % DAY_US - days * DAY_US


def day_of(at_us: int) -> date:
    return datetime.fromtimestamp(at_us // SECOND_US, UTC).date()


def day_us(day: str) -> int:
    """Return the beginning of a day (UTC) such as 2026-11-22."""
    return round(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * SECOND_US
