"""Whether the disk still does what one log asks of it, and what is said to whoever asks when it does not."""

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.place import LogPlace


class LogHealth:
    """`usable`: records may follow as things are. Else the log directory may have no room for them, and `is_torn` says
    whether what a failed write has left has to be cut off first.

    `offline` says why the log takes no records until the broker is restarted; None while it does.
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
        """Raises KafkaError when the log is offline."""
        if self.offline is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline)

    def give_up(self, what: str, error: Exception) -> None:
        """After a failed fsync the kernel may have dropped the pages and call them clean: only a restart, which reads
        what is really there, can say what survived."""
        self._place.on_failed()
        self.take_offline(f"{self._place} takes no records since {what} failed ({error}); restart")

    def failure(self, what: str, error: Exception) -> KafkaError:
        """For who asked; the log goes on, as the next try may succeed (descriptors were short, say)."""
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{what} on {self._place} failed: {error}")

    def write_failure(self, what: str, error: OSError) -> KafkaError:
        """The same of a write, on the event loop: it tells of the log directory, too."""
        self._place.on_write_failed(f"{what} on {self._place}", error)
        return self.failure(what, error)
