"""Whether the log directory accepts writes, and what the broker does while it does not.

Apache Kafka takes a directory with a full disk offline, and stops the broker if it is the only one. This broker keeps
serving stored records, and accepts new ones when there is room again.
"""

import errno
import logging
from collections.abc import Callable
from pathlib import Path
from random import Random

from broker_runtime.clock import Clock
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.disk.disk import Disk
from broker_runtime.storage.disk.filesystem import FileSystem

_LOGGER = logging.getLogger(__name__)
RESERVE = ".sluicegate_reserve"
RESERVE_BYTES = 2 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT)
_TRIED_BYTES = 64 << 10
_LOGGED_EVERY_S = 60.0
_QUIET_S = 10.0
"""How long an unreliable disk must be without a failure before it is reported to work again, in seconds."""


class LogDirHealth:
    """The failures of writes to a log directory, which are logged at most once a minute.

    A file of `reserve_bytes` reserves space for what a full disk must still accept: the metadata log, and the small
    files that are needed to remove old segments and deleted topics. The file is removed when a write finds no space.
    From then on `check` rejects records until there is room for twice the reserve. The file is the only durable state.
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
        """`on_full` is called when `check` begins to reject records."""
        self.failure: str | None = None
        """Description and error of the last failed write; None when later ones succeeded."""
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
        """Raise KafkaError while the log directory is full."""
        if self.is_full:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{self.failure}; the broker accepts records again when space is free"
            )

    def write_failed(self, what: str, error: Exception) -> None:
        """Report a failed write, whatever its consequences. Call it on the event loop."""
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
        """Try a write, beside the event loop, if writes have failed."""
        if self.failure is not None and (self.is_full or self._clock.monotonic() - self._last_s >= _QUIET_S):
            self._work()

    def _work(self) -> None:
        """Run one task at a time: the reserve is released before the directory is tested for space."""
        if self._works:
            return
        self._works = True
        if self._must_release:
            self._must_release = False
            self._disk.submit(self.release, self._released)
        else:
            self._disk.submit(self._try, self._tried)

    def release(self) -> None:
        """Delete the reserve file, which frees its space. Raises OSError."""
        if self._fs.exists(self._log_dir / RESERVE):
            self._fs.unlink(self._log_dir / RESERVE)

    def reserve(self) -> None:
        """Create the reserve file at the end of a start: the start itself may have needed the space."""
        if self._reserve_bytes:
            try:
                self._try()
            except OSError as error:
                self.write_failed(f"writing {RESERVE}", error)

    def _try(self) -> None:
        """Write twice the reserve, and keep one. Raises OSError."""
        path, size = self._log_dir / RESERVE, self._reserve_bytes
        try:
            file = self._fs.open(path, create=True)
            # Random bytes, which no file system can store in less space, in pieces, so that memory does not fragment.
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
            # The test began before the failure.
            self._work()
        elif error is None:
            duration_s = self._clock.monotonic() - self._began_s
            _LOGGER.warning("log.dirs=%s can be written again, after %.0f s", self._log_dir, duration_s)
            self.failure, self.is_full, self._logged_s = None, False, None
