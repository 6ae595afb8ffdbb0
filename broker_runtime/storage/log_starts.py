"""Where logs begin, noted so that deleted records do not come back: at once, or for many logs with one write."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.checkpoint import Partition
from broker_runtime.storage.checkpoint_file import CheckpointFile
from broker_runtime.storage.disk import Done


class LogStarts:
    """`now` is where logs begin that begin behind their first segment; `write` and `write_soon` put that on disk.

    Each start that has moved is there for good when `moved` returns, or, of those that are `gathered`, when the
    `write_soon` that follows has called back without an error.
    """

    def __init__(
        self,
        file: CheckpointFile[int],
        now: Callable[[], Mapping[Partition, int]],
        write: Callable[[Mapping[Partition, int]], None],
        write_soon: Callable[[Mapping[Partition, int], Done], None],
    ) -> None:
        self._file = file
        self._now = now
        self._write = write
        self._write_soon = write_soon
        self._are_gathered = self._have_moved = False

    def moved(self) -> None:
        """Raises KafkaError."""
        if self._are_gathered:
            self._have_moved = True
        else:
            self.write()

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Starts that move within are noted together, by the `write_soon` that follows."""
        self._are_gathered = True
        try:
            yield
        finally:
            self._are_gathered = False

    def write(self) -> None:
        """Raises KafkaError."""
        self._have_moved = False
        try:
            self._write(self._now())
        except OSError as error:
            self._have_moved = True
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"writing {self._file.name} failed: {error}") from error

    def write_soon(self, done: Done) -> None:
        """One write in a thread for all that have moved; `done` is called once it is there, or with why it is not."""
        if self._have_moved or not self._file.is_settled:
            self._have_moved = False
            self._write_soon(self._now(), done)
        else:
            done(None)
