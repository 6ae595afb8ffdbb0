"""Which hours and days a build computes, and what it records for each day. Pure.

`noted` is the manifest's record of days, by ISO date.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from audit_pipeline.hours import day_of_hour, hours_of_day
from audit_pipeline.results.settings import Settings

Notes = Mapping[str, Mapping[str, Any]]

_OVER_AFTER: Final = timedelta(minutes=15)
"""Delay after which a day is over. Events that arrive after a build later than that are late."""


@dataclass(frozen=True, slots=True)
class AskedDays:
    """`first` to `last` are requested, None for all; `oldest` is the first day that retention keeps, None for all."""

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
        """Whether the day is beyond the retention."""
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
    """Return the record of a day of which facts were just made: build time, storm limits, and number of late rows.

    `new_rows` is the number of rows since the day was last built. Results of the day are not computed yet.
    """
    over = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1) + _OVER_AFTER
    late = former.get("late", 0) if former else 0
    if former and former["built_us"] >= over.timestamp() * 1_000_000:
        late += new_rows
    return {"built_us": built_us, "late": late, "storms": storms_mark(settings)}


def storms_mark(settings: Settings) -> str:
    return repr(asdict(settings.storms))


def results_mark(settings: Settings) -> str:
    """Return the settings that daily results depend on besides facts."""
    made = asdict(settings)
    return repr((made["prices"], made["objectives"]))
