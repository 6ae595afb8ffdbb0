"""Schedules in cron's format, in UTC: their last and their next time. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from sluicegate_operator.api.models.audit_pipeline import MONTHS, SHORTHANDS, WEEKDAYS

_LOOK_DAYS = 366 * 9
"""Search range in days: February 29 may be eight years away."""


class ScheduleError(ValueError):
    """Error for text in the format of a schedule that matches no time."""


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """A cron schedule: the values that each field allows.

    If both day fields are restricted, either is enough, as in every cron.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool

    def last(self, after: datetime, until: datetime) -> datetime | None:
        """Return the newest scheduled time later than `after` and not later than `until`."""
        newest = self._newest(until)
        return newest if newest is not None and newest > after else None

    def next(self, after: datetime) -> datetime | None:
        """Return the first scheduled time later than `after`; None without such a time."""
        day = after.replace(hour=0, minute=0, second=0, microsecond=0)
        for number in range(_LOOK_DAYS):
            found = (time for time in self._times(day + timedelta(days=number)) if time > after)
            if (first := next(found, None)) is not None:
                return first
        return None

    def _newest(self, until: datetime) -> datetime | None:
        day = until.replace(hour=0, minute=0, second=0, microsecond=0)
        for number in range(_LOOK_DAYS):
            times = [time for time in self._times(day - timedelta(days=number)) if time <= until]
            if times:
                return times[-1]
        return None

    def _times(self, day: datetime) -> Iterator[datetime]:
        """Yield the times of one day, in order."""
        by_date, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        fits = (by_date or by_weekday) if self.either_day else (by_date and by_weekday)
        if not fits or day.month not in self.months:
            return
        for hour in sorted(self.hours):
            for minute in sorted(self.minutes):
                yield day.replace(hour=hour, minute=minute)


def parse_schedule(text: str) -> CronSchedule:
    """Parse a pipeline's schedule, a text that matches api.models.audit_pipeline.SCHEDULE_PATTERN.

    Raises ScheduleError.
    """
    fields = SHORTHANDS.get(text, text).lower().split()
    minutes, hours, days, months, weekdays = fields
    return CronSchedule(
        _allowed(minutes, 0, 59),
        _allowed(hours, 0, 23),
        _allowed(days, 1, 31),
        _allowed(months, 1, 12, MONTHS),
        _allowed(weekdays, 0, 6, WEEKDAYS),
        either_day=not _is_any(days) and not _is_any(weekdays),
    )


def _is_any(field: str) -> bool:
    """Whether a day field leaves the choice to the other one. `*/2` does not, as in robfig/cron 3 (CronJobs)."""
    return not {"*", "*/1"}.isdisjoint(field.split(","))


def _allowed(field: str, low: int, high: int, names: tuple[str, ...] = ()) -> frozenset[int]:
    """Return the allowed numbers of a field; `names` are names of the numbers from `low`."""

    def number(text: str) -> int:
        return names.index(text) + low if text in names else int(text)

    allowed: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        if span == "*":
            begin, end = low, high
        else:
            begin = number(first)
            end = number(last) if last else high if step else begin
        if begin > end:
            raise ScheduleError(f"range {part} of the schedule ends before it begins: write the smaller number first")
        allowed |= set(range(begin, end + 1, int(step or 1)))
    return frozenset(allowed)
