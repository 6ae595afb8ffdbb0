"""Whether the log directory takes writes, and what is done while it does not.

Apache Kafka takes a directory offline whose disk is full, and with its only one the broker ends. Here what is stored is
served on, and records are taken again when there is room.
"""

import errno
import logging
from collections.abc import Callable
from pathlib import Path
from random import Random

from broker_runtime.clock import Clock
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.disk import Disk
from broker_runtime.storage.filesystem import FileSystem

_LOGGER = logging.getLogger(__name__)
RESERVE = ".sluicegate_reserve"
RESERVE_BYTES = 2 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT)
_TRIED_BYTES = 64 << 10
_LOGGED_EVERY_S = 60.0
_QUIET_S = 10.0
"""A disk that fails now and then is said to work again after so long without a failure."""


class LogDirHealth:
    """What failed writes tell of the directory. A line in the log, one a minute at most, says which failed last.

    A file of `reserve_bytes` keeps that much space free for what a full disk still has to take: the metadata log, and
    the small files by which old segments and deleted topics may go. It is removed when a write finds no space; from
    then on `check` refuses records, until there is room for the reserve twice. The file is all that is durable.
    """

    def __init__(
        self,
        fs: FileSystem,
        log_dir: Path,
        clock: Clock,
        disk: Disk,
        reserve_bytes: int,
        on_full: Callable[[], None],
    ) -> None:
        """`on_full` is called when `check` begins to refuse."""
        self.failure: str | None = None
        """Which write failed last, and why; None when later ones did not."""
        self.failed_writes = 0
        self.is_full = False
        self._fs = fs
        self._log_dir = log_dir
        self._clock = clock
        self._disk = disk
        self._reserve_bytes = reserve_bytes
        self._on_full = on_full
        self._began_s = self._last_s = 0.0
        self._logged_s: float | None = None
        self._works = False
        self._must_release = False

    def check(self) -> None:
        """Raises KafkaError while the directory is full."""
        if self.is_full:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.failure}; records are taken when there is room")

    def write_failed(self, what: str, error: Exception) -> None:
        """Call it on the event loop, whatever comes of the failure."""
        now_s = self._clock.monotonic()
        if self.failure is None:
            self._began_s = now_s
        self._last_s = now_s
        self.failed_writes += 1
        number = error.errno if isinstance(error, OSError) else None
        name = "" if number is None else f"{errno.errorcode.get(number, number)}: "
        self.failure = f"log.dirs={self._log_dir}: {what} failed: {name}{error}"
        if self._logged_s is None or now_s - self._logged_s >= _LOGGED_EVERY_S:
            self._logged_s = now_s
            _LOGGER.error("%s; %d writes have failed since the start", self.failure, self.failed_writes)
        if number in _FULL and self._reserve_bytes and not self.is_full:
            self.is_full = self._must_release = True
            self._on_full()
            self._work()

    def tick(self) -> None:
        """Try a write, beside the event loop, where some have failed."""
        if self.failure is not None and (self.is_full or self._clock.monotonic() - self._last_s >= _QUIET_S):
            self._work()

    def _work(self) -> None:
        """One thing at a time: the space is given back before it is tried whether there is some."""
        if self._works:
            return
        self._works = True
        if self._must_release:
            self._must_release = False
            self._disk.submit(self.release, self._released)
        else:
            self._disk.submit(self._try, self._tried)

    def release(self) -> None:
        """Give the reserve back; raises OSError."""
        if self._fs.exists(self._log_dir / RESERVE):
            self._fs.unlink(self._log_dir / RESERVE)

    def reserve(self) -> None:
        """At the end of a start, which may have needed the space."""
        if self._reserve_bytes:
            try:
                self._try()
            except OSError as error:
                self.write_failed(f"writing {RESERVE}", error)

    def _try(self) -> None:
        """Raises OSError."""
        path, size = self._log_dir / RESERVE, self._reserve_bytes
        try:
            file = self._fs.open(path, create=True)
            # Nothing that a file system could store in less space, in pieces that leave no hole in the memory.
            random, end = Random(0), 2 * size or _TRIED_BYTES
            for at in range(0, end, _TRIED_BYTES):
                file.write_at([random.randbytes(min(_TRIED_BYTES, end - at))], at)
            file.truncate(size)
        except OSError:
            self.release()
            raise
        if not size:
            self.release()

    def _released(self, error: Exception | None) -> None:
        self._works = False
        if error is not None:
            _LOGGER.error("%s cannot be removed: %s", self._log_dir / RESERVE, error)

    def _tried(self, error: Exception | None) -> None:
        self._works = False
        if self._must_release:
            # What was tried is older than the failure.
            self._work()
        elif error is None:
            duration_s = self._clock.monotonic() - self._began_s
            _LOGGER.warning("log.dirs=%s takes writes again, after %.0f s", self._log_dir, duration_s)
            self.failure, self.is_full, self._logged_s = None, False, None
