"""One small file with a value for each partition, always rewritten as a whole: at once, or in a thread."""

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from broker_runtime.storage.disk.checkpoint import Partition

_LOGGER = logging.getLogger(__name__)
V = TypeVar("V")


class PendingWrite(NamedTuple):
    """A prepared write of a checkpoint file.

    `run` may be called in any thread and raises OSError. Then call `is_there` or `has_failed` on the event loop.
    """

    run: Callable[[], None]
    is_there: Callable[[], None]
    has_failed: Callable[[], None]


class CheckpointFile(Generic[V]):
    """A file with a value for each partition, whose newer content is never replaced by older content.

    This holds whatever thread writes the file. `on_disk` is the durable content. The file may have other values while a
    write is under way, after a failed write, and for forgotten partitions: `may_say` returns all candidates. `kept` are
    the values of partitions that have no log.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[], Mapping[Partition, V]],
        write: Callable[[Mapping[Partition, V], bool], None],
    ) -> None:
        """`write` gets the content and whether to sync it, and raises OSError; `read` raises ValueError."""
        self.name = name
        self.on_disk: Mapping[Partition, V] = {}
        self.kept: dict[Partition, V] = {}
        self._read = read
        self._write = write
        self._lock = threading.Lock()
        """Held while the file is written."""
        self._newest = self._written = 0
        self._coming: dict[int, Mapping[Partition, V]] = {}
        self._doubtful: dict[Partition, list[V]] = {}
        """Values of failed writes and forgotten partitions that the file may have, up to number `_doubtful_to`."""
        self._doubtful_to = 0

    def read(self) -> None:
        try:
            self.on_disk = self._read()
        except ValueError as error:
            # Without the checkpoint everything is checked from the start, which is slower but loses nothing.
            _LOGGER.warning("ignoring a damaged checkpoint: %s", error)

    def forget(self, key: Partition) -> None:
        """Stop trusting the value of the partition; the next write removes the value."""
        if key in self.on_disk:
            self._newest += 1
            self._doubt(self._newest, {key: self.on_disk[key]})
            self.on_disk = {other: value for other, value in self.on_disk.items() if other != key}

    @property
    def is_settled(self) -> bool:
        """Return whether `on_disk` is certainly the file's content."""
        return not self._coming and not self._doubtful_to

    def may_say(self, key: Partition) -> list[V]:
        """Return all values that the file may have for a partition."""
        values = [content[key] for content in (self.on_disk, *self._coming.values()) if key in content]
        return values + self._doubtful.get(key, [])

    def begin(self, content: Mapping[Partition, V], *, sync: bool = True) -> "PendingWrite | None":
        """Prepare a write of this content; None if the file already has exactly this content."""
        if self.is_settled and content == self.on_disk:
            return None
        self._newest += 1
        self._coming[self._newest] = content
        number = self._newest
        run = partial(self._run, number, content, sync)
        return PendingWrite(run, partial(self._is_there, number), partial(self._has_failed, number))

    def write(self, content: Mapping[Partition, V], *, sync: bool = True) -> None:
        """Write a checkpoint file with this content now. Raises OSError."""
        pending = self.begin(content, sync=sync)
        if pending is not None:
            try:
                pending.run()
            except OSError:
                pending.has_failed()
                raise
            pending.is_there()

    def _run(self, number: int, content: Mapping[Partition, V], sync: bool) -> None:
        with self._lock:
            if number > self._written:
                self._write(content, sync)
                self._written = number

    def _is_there(self, number: int) -> None:
        content = self._coming.get(number)
        if content is not None:
            # Unless a newer content is there already.
            self.on_disk = content
            self._coming = {other: value for other, value in self._coming.items() if other > number}
            if number > self._doubtful_to:
                self._doubtful, self._doubtful_to = {}, 0

    def _has_failed(self, number: int) -> None:
        """Remember the values of a failed write.

        Repeated failures on a full disk take memory only for different values.
        """
        content = self._coming.pop(number, None)
        if content is None:
            # A newer content is there.
            return
        self._doubt(number, content)

    def _doubt(self, number: int, content: Mapping[Partition, V]) -> None:
        self._doubtful_to = max(self._doubtful_to, number)
        for key, value in content.items():
            values = self._doubtful.setdefault(key, [])
            if value not in values:
                values.append(value)
