"""Persists the start offsets of logs, at once or for many logs with one write, so that deleted records stay deleted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.disk.checkpoint_file import CheckpointFile
from broker_runtime.storage.disk.disk import Done


class LogStarts:
    """The start offsets of all logs of a folder, in a file.

    `write` and `write_soon` store the present starts of all logs whose start lies after the begin of their first
    segment. A start that moves is durable when `moved` returns. Starts that are `gathered` are durable when the
    following `write_soon` calls back without an error.
    """

    def __init__(
        self,
        file: CheckpointFile[int],
        write: Callable[[], None],
        write_soon: Callable[[Done], None],
    ) -> None:
        self._file = file
        self._write = write
        self._write_soon = write_soon
        self._are_gathered = self._have_moved = False

    def moved(self) -> None:
        """Persist the starts after one has moved; within `gathered`, only note that. Raises KafkaError."""
        if self._are_gathered:
            self._have_moved = True
        else:
            self.write()

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Gather the starts that move in this context, for the `write_soon` that follows."""
        self._are_gathered = True
        try:
            yield
        finally:
            self._are_gathered = False

    def write(self) -> None:
        """Write the start offsets of all logs durably, and wait for that. Raises KafkaError."""
        self._have_moved = False
        try:
            self._write()
        except OSError as error:
            self._have_moved = True
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"writing {self._file.name} failed: {error}") from error

    def write_soon(self, done: Done) -> None:
        """Persist all moved starts with one write in a thread.

        `done` is called with None once the write is durable, or with the error.
        """
        if self._have_moved or not self._file.is_settled:
            self._have_moved = False
            self._write_soon(done)
        else:
            done(None)
