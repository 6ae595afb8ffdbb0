"""The p99 of the delays since the last change of the rate. Pure.

A probe is due every `PROBE_MS`, and one probe waits at a time. While a probe waits for 40 ms, nine others are due and
not sent. They would have been late by 36 ms, 32 ms and so on, and are counted with these delays. Otherwise a busy event
loop would have fewer samples than an idle one (Gil Tene's coordinated omission).
"""

from bisect import insort

PROBE_MS = 4
"""Time between two probes: 125 of them are due between two decisions."""
SAMPLES_MIN = 100
"""The p99 of fewer samples would be their maximum, so one pause of the process would cut the rate."""
_SAMPLES_MAX = 400
_PERCENT = 99


class Delays:
    """The most recent delays, in milliseconds, at most 400 of them."""

    __slots__ = ("_latest", "_sorted")

    def __init__(self) -> None:
        self._latest: list[float] = []
        self._sorted: list[float] = []

    def __len__(self) -> int:
        return len(self._latest)

    def add(self, delay_ms: float) -> None:
        """Record the delay of a probe, and the delays of probes that were due meanwhile. Drop the oldest delays."""
        for _ in range(_SAMPLES_MAX):
            if len(self._latest) >= _SAMPLES_MAX:
                self._sorted.remove(self._latest.pop(0))
            self._latest.append(delay_ms)
            insort(self._sorted, delay_ms)
            delay_ms -= PROBE_MS
            if delay_ms <= 0:
                break

    def forget(self) -> None:
        """Drop all recorded delays of probes."""
        self._latest.clear()
        self._sorted.clear()

    def p99_ms(self) -> float | None:
        """Return the p99 of the delays by nearest rank; None for fewer samples than `SAMPLES_MIN`."""
        count = len(self._sorted)
        if count < SAMPLES_MIN:
            return None
        return self._sorted[-(-count * _PERCENT // 100) - 1]
