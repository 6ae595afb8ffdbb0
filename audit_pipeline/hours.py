"""Hours of events in UTC, as whole numbers since 1970. Facts are built by hour. Pure."""

from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Final

HOUR_US: Final = 3_600_000_000
_HOURS: Final = 24
_EPOCH: Final = date(1970, 1, 1)


def hour_at(us: int) -> int:
    """Return the hour of a time in microseconds since 1970."""
    return us // HOUR_US


def day_of_hour(hour: int) -> date:
    return _EPOCH + timedelta(days=hour // _HOURS)


def hours_of_day(day: date) -> range:
    first = (day - _EPOCH).days * _HOURS
    return range(first, first + _HOURS)


def by_day(hours: Iterable[int]) -> dict[date, list[int]]:
    """Return the hours of each day, days and hours in order."""
    found: dict[date, list[int]] = {}
    for hour in sorted(hours):
        found.setdefault(day_of_hour(hour), []).append(hour)
    return found


def runs(hours: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield each run of consecutive hours, as its first hour and the hour after its last one."""
    first = after = None
    for hour in sorted(set(hours)):
        if after is not None and first is not None and hour != after:
            yield first, after
            first = None
        first = hour if first is None else first
        after = hour + 1
    if first is not None and after is not None:
        yield first, after


def named(hours: Iterable[int]) -> list[str]:
    """Return the names of hours and of whole days, such as 2026-11-22T05 and 2026-11-22. `hours_named` reads them."""
    names = []
    for day, members in by_day(hours).items():
        if len(members) == _HOURS:
            names.append(day.isoformat())
        else:
            names += [f"{day}T{hour % _HOURS:02}" for hour in members]
    return names


def hours_named(names: Iterable[str]) -> set[int]:
    """Return the hours that these names stand for."""
    found: set[int] = set()
    for name in names:
        day, _, hour = name.partition("T")
        whole = hours_of_day(date.fromisoformat(day))
        found.update([whole[int(hour)]] if hour else whole)
    return found


def shown(hours: Collection[int]) -> str:
    """Return the span of hours as a text for users, such as 2026-11-22 05:00 to 07:00, or 2 days from ... to ..."""
    days = by_day(hours)
    first = min(days)
    if len(days) > 1 or len(days[first]) == _HOURS:
        return shown_days(days)
    return f"{first} {min(hours) % _HOURS:02}:00 to {max(hours) % _HOURS + 1:02}:00"


def shown_days(days: Collection[date]) -> str:
    """Return the span of days as a text for users, such as 2026-11-22, or 2 days from ... to ..."""
    return f"{min(days)}" if len(days) == 1 else f"{len(days)} days from {min(days)} to {max(days)}"


def start_of(hour: int) -> datetime:
    return datetime.fromtimestamp(hour * HOUR_US / 1_000_000, UTC)
