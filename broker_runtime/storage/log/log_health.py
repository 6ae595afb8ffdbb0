"""Whether the disk works for one log, and the errors for callers when it does not."""

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.disk.place import LogPlace


class LogHealth:
    """The state that decides whether a log accepts records.

    `usable`: appends may proceed without a check. Otherwise the log directory may be full, or `is_torn` is set: what a
    failed write has left has to be cut off first. `offline` is the reason why the log accepts no records until the
    broker restarts; None while it accepts them.
    """

    __slots__ = ("_place", "is_torn", "offline", "usable")

    def __init__(self, place: LogPlace) -> None:
        self._place = place
        self.offline: str | None = None
        self.usable = True
        self.is_torn = False

    def torn(self) -> None:
        self.usable, self.is_torn = False, True

    def mended(self) -> None:
        self.usable, self.is_torn = self.offline is None, False

    def take_offline(self, reason: str) -> None:
        self.offline = reason
        self.usable = False

    def check(self) -> None:
        """Raise KafkaError if the log is offline."""
        if self.offline is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline)

    def give_up(self, what: str, error: Exception) -> None:
        """Take the log offline after a failed fsync.

        The kernel may have dropped the pages and marked them clean: only a restart, which reads the disk, shows which
        records survived.
        """
        self._place.on_failed()
        self.take_offline(f"{self._place} has accepted no records since {what} failed ({error}); restart this broker")

    def failure(self, what: str, error: Exception) -> KafkaError:
        """Return the error to raise for a failed operation; the log stays online.

        The next attempt may succeed, for example after a shortage of descriptors.
        """
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{what} on {self._place} failed: {error}")

    def write_failure(self, what: str, error: OSError) -> KafkaError:
        """Return the error to raise for a failed write, and report it to the log directory's health.

        Call it on the event loop.
        """
        self._place.on_write_failed(f"{what} on {self._place}", error)
        return self.failure(what, error)
