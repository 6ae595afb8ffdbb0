"""Numbers as short texts for cells, and sparklines. Pure. An unknown number is `-`."""

from collections.abc import Sequence

UNKNOWN = "-"
BLOCKS, ASCII_BLOCKS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"
_UNITS = ("", "k", "M", "G", "T")


def short(value: float | None) -> str:
    """Return a number with about three digits: 7, 0.4, 12.3, 950, 1.2k, 34.5M."""
    if value is None:
        return UNKNOWN
    size = abs(value)
    for unit in _UNITS:
        if size < 999.5 or unit == _UNITS[-1]:
            digits = 0 if size >= 99.95 or (not unit and value == int(value)) else 1
            return f"{value:.{digits}f}{unit}"
        value, size = value / 1000, size / 1000
    raise AssertionError("the last unit fits every number")


def percent(share: float | None) -> str:
    if share is None:
        return UNKNOWN
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


def rate_of(now: float | None, limit: float | None) -> str:
    """Return a used number beside its limit: `4.9/50`."""
    return f"{short(now)}/{short(limit)}"


def milliseconds(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def seconds(value: float | None) -> str:
    """Return a duration with its unit: 0.4s, 12s, 3m, 2h."""
    if value is None:
        return UNKNOWN
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if value >= 2 * length:
            return f"{value // length:.0f}{unit}"
    return f"{value:.0f}s" if value >= 9.95 else f"{value:.1f}s"


def ids(found: Sequence[int]) -> str:
    return ",".join(map(str, found)) or "none"


def sparkline(values: Sequence[float], width: int, blocks: str = BLOCKS) -> str:
    """Return the last `width` values as blocks relative to the largest one, the newest at the right end.

    A value above 0 has at least the lowest block, so that it differs from 0.
    """
    shown = values[-width:]
    peak, steps = max(shown, default=0.0), len(blocks) - 1
    if peak <= 0:
        drawn = blocks[0] * len(shown)
    else:
        drawn = "".join(blocks[max(1, round(value / peak * steps)) if value > 0 else 0] for value in shown)
    return drawn.rjust(width)
