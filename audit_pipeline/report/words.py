"""Numbers, sizes, times and lists in readable form. Pure."""

import math
from datetime import UTC, datetime

from audit_pipeline.report.window import DAY_US, HOUR_US, MINUTE_US, SECOND_US, Span

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_LARGE = ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"))
NAMED_MAX = 5
_DIGITS_MAX = 12
_SAME = 0.0005


def count(number: int) -> str:
    return f"{number:,}"


def about(number: int) -> str:
    """Return the number as a short text for sentences, such as 12.3 million."""
    for size, name in _LARGE:
        if abs(number) >= size:
            return f"{number / size:.3g} {name}" if abs(number) < 1000 * size else f"{number / size:,.0f} {name}"
    return f"{number:,}"


def number_of(number: int, one: str, many: str | None = None) -> str:
    return f"{about(number)} {one if number == 1 else many or one + 's'}"


def three_digits(value: float) -> str:
    """Return a number with three significant digits, without an exponent."""
    if value == 0:
        return "0"
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    # A value that rounds up to the next power of ten has one decimal less.
    digits = min(_DIGITS_MAX, 2 - math.floor(math.log10(abs(value) * 1.0005)))
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def size_unit(largest: float) -> tuple[float, str]:
    """Return the divisor for bytes and the name of its unit, so that the largest value is below 1024."""
    power = 0
    while largest >= 1024 ** (power + 1) and power + 1 < len(_SIZES):
        power += 1
    return float(1024**power), _SIZES[power]


def size(number: float) -> str:
    factor, unit = size_unit(abs(number))
    return f"{three_digits(number / factor)} {unit}"


def rate(bytes_per_s: float) -> str:
    return f"{size(bytes_per_s)}/s"


def latency(microseconds: int | None) -> str:
    if microseconds is None:
        return "not known"
    if microseconds < 1000:
        return f"{microseconds} µs"
    if microseconds < SECOND_US:
        return f"{three_digits(microseconds / 1000)} ms"
    return f"{three_digits(microseconds / SECOND_US)} s"


def percent(share: float) -> str:
    """Return the share as a percentage: never 100 % for less than all, and never 0 % for more than nothing."""
    hundredths = share * 100
    if 0 < hundredths < 0.001:
        return "less than 0.001 %"
    if 99.995 <= hundredths < 100:
        return "more than 99.99 %"
    return f"{three_digits(hundredths) if hundredths < 99 or hundredths >= 100 else f'{hundredths:.2f}'} %"


def change(now: float, before: float) -> str:
    if abs(now - before) < abs(before) * _SAME:
        return "the same"
    if not before:
        return "none before" if now else "the same"
    if now >= 3 * before:
        return f"{three_digits(now / before)} times"
    return f"{(now - before) / before * 100:+.1f} %".replace("-", "−")


def length(length_us: int) -> str:
    """Return a length of time in its two largest units, such as 2 d 4 h."""
    parts = []
    for unit_us, name in ((DAY_US, "d"), (HOUR_US, "h"), (MINUTE_US, "min"), (SECOND_US, "s")):
        if length_us >= unit_us:
            parts.append(f"{length_us // unit_us} {name}")
            length_us %= unit_us
        elif parts:
            break
    return " ".join(parts[:2]) or "less than 1 s"


def moment(at_us: int, *, seconds: bool = False) -> str:
    return f"{_utc(at_us):{'%Y-%m-%d %H:%M:%S' if seconds else '%Y-%m-%d %H:%M'}}"


def moment_utc(at_us: int, *, seconds: bool = False) -> str:
    return f"{moment(at_us, seconds=seconds)} UTC"


def span(stretch: Span) -> str:
    return f"{moment(stretch.from_us)} to {moment(stretch.to_us)} UTC"


def _utc(at_us: int) -> datetime:
    return datetime.fromtimestamp(at_us / SECOND_US, UTC)
