"""Liveness and readiness of the operator. Any thread may write or read them."""

import time
from collections.abc import Callable


class Liveness:
    """The liveness of the process: alive while the event loop runs, which calls `beat`."""

    STALE_S = 60.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._now_s = clock
        self._last_s = clock()

    def beat(self) -> None:
        self._last_s = self._now_s()

    @property
    def silent_s(self) -> float:
        return self._now_s() - self._last_s

    @property
    def alive(self) -> bool:
        return self.silent_s < self.STALE_S


class Readiness:
    """The readiness of the process: ready while no part has a reason against it.

    A standby that waits for the Lease is ready.
    """

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def note(self, part: str, reason: str) -> None:
        """Record whether a part of the operator works.

        `reason` is a sentence; an empty one means that nothing is wrong (any more).
        """
        # Replaced, never changed: another thread may be reading it.
        self._reasons = {**self._reasons, part: reason}

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(reason for reason in self._reasons.values() if reason)
