"""The events in virtual time: faults, warnings of the code under test, mistakes. Kept short enough to read."""

import logging
import traceback
from collections import deque
from collections.abc import Iterable

from tests.simulation.cluster.machine.loop import START_S, VirtualLoop, current_owner
from tests.support.obtain.previous_release import RENAMED

_LINES_MAX = 4_000
_LOGGERS = ("broker_runtime", f"{RENAMED}broker_runtime")
"""Loggers of the simulated nodes, those of the previous release included."""


class Trace(logging.Handler):
    """A log of events; with `verbose` it prints them at once, and includes the code's logs from DEBUG on."""

    def __init__(self, *, verbose: bool = False) -> None:
        super().__init__(logging.DEBUG if verbose else logging.WARNING)
        self.verbose = verbose
        self.lines: deque[str] = deque(maxlen=_LINES_MAX)
        self._loop: VirtualLoop | None = None
        self._before: list[tuple[logging.Logger, int, bool]] = []

    def begin(self, loop: VirtualLoop) -> None:
        self._loop = loop
        for name in _LOGGERS:
            logger = logging.getLogger(name)
            self._before.append((logger, logger.level, logger.propagate))
            logger.setLevel(self.level)
            logger.propagate = False
            logger.addHandler(self)

    def end(self) -> None:
        for logger, level, propagate in self._before:
            logger.removeHandler(self)
            logger.setLevel(level)
            logger.propagate = propagate
        self._before.clear()

    def over(self) -> None:
        """Stop the log: what follows is only cleanup."""
        self._loop = None

    def note(self, text: str) -> None:
        if self._loop is None:
            return
        line = f"{self._loop.time() - START_S:9.4f} {text}"
        self.lines.append(line)
        if self.verbose:
            print(line, flush=True)

    def emit(self, record: logging.LogRecord) -> None:
        owner = current_owner()
        self.note(f"  [{owner.name if owner else '-'}] {record.levelname.lower()}: {record.getMessage()}")
        if record.exc_info is not None and record.exc_info[1] is not None:
            self.raised(record.exc_info[1])

    def raised(self, error: BaseException) -> None:
        for part in traceback.format_exception(error):
            for line in part.rstrip().splitlines():
                self.note(f"    {line}")

    def tail(self, count: int) -> Iterable[str]:
        return list(self.lines)[-count:]
