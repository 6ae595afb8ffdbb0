"""The positions and labels of the ticks of an axis. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from audit_pipeline.report.window import DAY_US, HOUR_US, MINUTE_US, SECOND_US, Span
from audit_pipeline.report.words import three_digits

_TIME_STEPS_US = (
    *(seconds * SECOND_US for seconds in (10, 20, 30)),
    *(minutes * MINUTE_US for minutes in (1, 2, 5, 10, 20, 30)),
    *(hours * HOUR_US for hours in (1, 2, 3, 6, 12)),
    *(days * DAY_US for days in (1, 2, 4, 7, 14, 28, 56, 112, 224)),
)
TIMES_MAX, SECONDS_MAX = 7, 5
"""Maximum numbers of ticks of a time axis. Times with seconds need more space."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A tick of an axis, at a position from 0 to 1. A minor tick is left out if the plot is narrow."""

    at: float
    label: str
    is_minor: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale up to `most`, from 0 or, if it is logarithmic, from `least`.

    Labels are in `unit`: one unit is `factor` (see `linear`) in plotted values.
    """

    most: float
    ticks: Sequence[Tick]
    unit: str
    least: float | None = None

    def place(self, value: float) -> float:
        """Return the position of a value on the scale, from 0 to 1."""
        if self.least is None:
            return value / self.most
        inside = min(max(value, self.least), self.most)
        return math.log(inside / self.least) / math.log(self.most / self.least)


def linear(largest: float, factor: float, unit: str) -> Scale:
    """Return a scale from 0 to a round number that is at least the largest value."""
    top = largest / factor if largest > 0 else 1.0
    step = _round_step(top / 4)
    steps = math.ceil(top / step - 1e-9)
    labels = [three_digits(step * number) for number in range(steps + 1)]
    return Scale(step * steps * factor, [Tick(number / steps, label) for number, label in enumerate(labels)], unit)


def logarithmic(smallest: float, largest: float, factor: float, unit: str) -> Scale:
    """Return a scale between powers of ten, so that small and large values can both be read."""
    low = math.floor(math.log10(smallest / factor) + 1e-9)
    high = max(low + 1, math.ceil(math.log10(largest / factor) - 1e-9))
    every = 1 if high - low <= 5 else 2
    ticks = [Tick((power - low) / (high - low), three_digits(10.0**power)) for power in range(low, high + 1, every)]
    return Scale(10.0**high * factor, ticks, unit, 10.0**low * factor)


def times(span: Span) -> list[Tick]:
    """Return ticks of a time axis at round times.

    Midnight is labelled with the date, other times with the hour.
    """
    step_us = next(
        (each for each in _TIME_STEPS_US if span.length_us / each <= (TIMES_MAX if each >= MINUTE_US else SECONDS_MAX)),
        DAY_US * -(-span.length_us // (DAY_US * TIMES_MAX)),
    )
    first_us = -(-span.from_us // step_us) * step_us
    marked = range(first_us, span.to_us, step_us)
    return [
        Tick((at_us - span.from_us) / span.length_us, _time(at_us, step_us), number % 2 == 1)
        for number, at_us in enumerate(marked)
    ]


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= least * (1 - 1e-9))


def _time(at_us: int, step_us: int) -> str:
    at = datetime.fromtimestamp(at_us // SECOND_US, UTC)
    if at_us % DAY_US == 0:
        return f"{at.day} {at:%b}"
    return f"{at:%H:%M}" if step_us % MINUTE_US == 0 else f"{at:%H:%M:%S}"
