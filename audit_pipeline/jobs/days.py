"""Which days a build computes, and what it notes of each. Pure.

`noted` is what the manifest says of days, by ISO date.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from audit_pipeline.results.settings import Settings

Notes = Mapping[str, Mapping[str, Any]]

_OVER_AFTER: Final = timedelta(minutes=15)
"""A day that was built later than so long after its end was over: what comes then is late."""


@dataclass(frozen=True, slots=True)
class AskedDays:
    """`first` to `last` are asked for, None for all; `oldest` is the first that retention keeps, None for all."""

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
        """Whether it is beyond the retention."""
        return self.oldest is not None and day is not None and day < self.oldest


def days_to_build(
    touched: set[date], lost: set[date], noted: Notes, asked: AskedDays, settings: Settings
) -> list[date]:
    """Those of which there is something new, and those whose facts were made with other limits of storms.

    Days whose files have gone stay as they are: they would become less.
    """
    others = {date.fromisoformat(day) for day, told in noted.items() if told.get("storms") != storms_mark(settings)}
    return sorted(day for day in (touched | others) - lost if asked.has(day))


def days_to_compute(noted: Notes, settings: Settings) -> list[date]:
    """Those whose results were not computed yet, or with other settings."""
    wanted = results_mark(settings)
    return sorted(date.fromisoformat(day) for day, told in noted.items() if told.get("settings") != wanted)


def note_of(
    former: Mapping[str, Any] | None, day: date, built_us: int, new_rows: int, settings: Settings
) -> dict[str, Any]:
    """Of a day whose facts were made now: when, with which limits, and how many rows came after it had been over.

    `new_rows`: what has come since the day was built before. Its results are not computed yet.
    """
    over = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1) + _OVER_AFTER
    late = former.get("late", 0) if former else 0
    if former and former["built_us"] >= over.timestamp() * 1_000_000:
        late += new_rows
    return {"built_us": built_us, "late": late, "storms": storms_mark(settings)}


def storms_mark(settings: Settings) -> str:
    return repr(asdict(settings.storms))


def results_mark(settings: Settings) -> str:
    """What daily results depend on beside facts."""
    made = asdict(settings)
    return repr((made["prices"], made["objectives"]))
