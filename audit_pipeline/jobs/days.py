"""Which hours and days a build computes, and what it records for each day. Pure.

`noted` is the manifest's record of days, by ISO date.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from audit_pipeline.hours import HOUR_US, day_of_hour, hours_of_day
from audit_pipeline.results.settings import Settings
from audit_pipeline.sources.catalogue import Hole, SetAside

Notes = Mapping[str, Mapping[str, Any]]
Files = Mapping[str, Mapping[str, Sequence[str]]]
"""Paths of files by table and by day (ISO)."""

RECOMMENDED_FACTS: Final = ("connection_seconds", "storm_bins", "heard_windows")
"""The facts that recommended limits are made from: storms and coverage are made from two of them."""

_OVER_AFTER: Final = timedelta(minutes=15)
"""Delay after which a day is over. Events that arrive after a build later than that are late."""


@dataclass(frozen=True, slots=True)
class AskedDays:
    """The days to build: `first` to `last` are requested, None for all.

    `oldest` is the first day that retention keeps, None for all.
    """

    first: date | None = None
    last: date | None = None
    oldest: date | None = None

    def has(self, day: date) -> bool:
        return (
            (self.first is None or day >= self.first)
            and (self.last is None or day <= self.last)
            and not self.drops(day)
        )

    def drops(self, day: date | None) -> bool:
        """Return whether the day is beyond the retention."""
        return self.oldest is not None and day is not None and day < self.oldest


def hours_to_build(touched: set[int], lost: set[int], noted: Notes, asked: AskedDays, settings: Settings) -> list[int]:
    """Return the hours that have new events, and those of days whose facts were made with other storm limits.

    Hours whose files were deleted stay unchanged: a rebuild would lose events.
    """
    others = {date.fromisoformat(day) for day, told in noted.items() if told.get("storms") != storms_mark(settings)}
    wanted = touched.union(*map(hours_of_day, others))
    return sorted(hour for hour in wanted - lost if asked.has(day_of_hour(hour)))


def beside(hours: Collection[int]) -> set[int]:
    """Return the hours before and after these: a storm in the first or last minutes of an hour concerns them, too."""
    return {near for hour in hours for near in (hour - 1, hour + 1)}.difference(hours)


def days_to_compute(noted: Notes, settings: Settings) -> list[date]:
    """Return the days whose results are not computed yet, or were computed with other settings."""
    wanted = results_mark(settings)
    return sorted(date.fromisoformat(day) for day, told in noted.items() if told.get("settings") != wanted)


def note_of(
    former: Mapping[str, Any] | None, day: date, built_us: int, new_rows: int, settings: Settings
) -> dict[str, Any]:
    """Return the record of a day whose facts were just made: build time, storm limits, and number of late rows.

    `new_rows` is the number of rows since the day was last built. Results of the day are not computed yet.
    """
    late = former.get("late", 0) if former else 0
    tried = {"what_if": former["what_if"]} if former and "what_if" in former else {}
    if former and is_over(day.isoformat(), former["built_us"]):
        late += new_rows
    return {"built_us": built_us, "late": late, "storms": storms_mark(settings), **tried}


def storms_mark(settings: Settings) -> str:
    return repr(asdict(settings.storms))


def what_if_mark(settings: Settings) -> str | None:
    """Return a digest of the limits to try, on which the replay of a day depends; None if no limits are tried."""
    return None if settings.what_if is None else sha256(settings.what_if.encode()).hexdigest()


def days_to_try(noted: Notes, built: Collection[int], lost: Collection[int], settings: Settings) -> list[date]:
    """Return the days to replay: those with `built` hours, and those that were replayed under other limits.

    A day whose files were deleted stays as it was replayed.
    """
    mark = what_if_mark(settings)
    days = {day_of_hour(hour) for hour in built if mark is not None}
    days |= {date.fromisoformat(day) for day, told in noted.items() if told.get("what_if") != mark}
    gone = {day_of_hour(hour) for hour in lost}
    return sorted(day for day in days if day.isoformat() in noted and day not in gone)


def recommended_mark(
    files: Files,
    noted: Notes,
    now_us: int,
    settings: Settings,
    holes: Iterable[Hole],
    wrong: Iterable[SetAside],
    *,
    is_daily: bool,
) -> str:
    """Return a digest that differs if the limits of these results have to be recommended again.

    It has the settings, and what recommendations are made from: files of facts, holes and files set aside. If
    `is_daily`, it has them only for days that are over: hours of the present day change no recommended limit. Before
    the first day is over, all days count.
    """
    over = {day for day in noted if is_over(day, now_us)}
    counted = over if is_daily and over else set(noted)
    facts = [
        (table, day, sorted(paths))
        for table in RECOMMENDED_FACTS
        for day, paths in sorted(files.get(table, {}).items())
        if day in counted
    ]
    missing = [hole for hole in holes if day_of_hour(hole.at_us // HOUR_US).isoformat() in counted]
    apart = [each for each in wrong if each.event_date is None or each.event_date.isoformat() in counted]
    parts = (sorted(counted), facts, asdict(settings), sorted(map(repr, missing)), sorted(map(repr, apart)))
    return sha256(repr(parts).encode()).hexdigest()


def is_over(day: str, now_us: int) -> bool:
    """Return whether a day (ISO) has ended, and its events should have arrived."""
    ended = datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(days=1) + _OVER_AFTER
    return now_us >= ended.timestamp() * 1_000_000


def results_mark(settings: Settings) -> str:
    """Return a text that differs if a setting differs on which daily results depend.

    These settings are the prices and the objectives.
    """
    made = asdict(settings)
    return repr((made["prices"], made["objectives"]))
