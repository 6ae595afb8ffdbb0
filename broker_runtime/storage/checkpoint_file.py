"""One small file with a value for each partition, which is written anew as a whole: at once, or in a thread."""

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from broker_runtime.storage.checkpoint import Partition

_LOGGER = logging.getLogger(__name__)
V = TypeVar("V")


class PendingWrite(NamedTuple):
    """`run`, in any thread, raises OSError; `is_there` or `has_failed` follows on the event loop."""

    run: Callable[[], None]
    is_there: Callable[[], None]
    has_failed: Callable[[], None]


class CheckpointFile(Generic[V]):
    """An older content never comes after a newer one, whichever of them is written in a thread.

    `on_disk` is what is there for good. While another is on its way, after a write that failed, and of what is
    forgotten, the file may have that as well: `may_say` knows. `kept` is what is said of partitions that have no log.
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
        """The values of contents up to the number `_doubtful_to`, whose writes have failed, or that are forgotten."""
        self._doubtful_to = 0

    def read(self) -> None:
        try:
            self.on_disk = self._read()
        except ValueError as error:
            # Without it everything is checked from the start, which is slower but loses nothing.
            _LOGGER.warning("ignoring a damaged checkpoint: %s", error)

    def forget(self, key: Partition) -> None:
        """What it says of the partition is believed no longer; it is gone with the next write."""
        if key in self.on_disk:
            self._newest += 1
            self._doubt(self._newest, {key: self.on_disk[key]})
            self.on_disk = {other: value for other, value in self.on_disk.items() if other != key}

    @property
    def is_settled(self) -> bool:
        """Whether `on_disk` is all that the file may have."""
        return not self._coming and not self._doubtful_to

    def may_say(self, key: Partition) -> list[V]:
        """What the file may say of a partition."""
        said = [content[key] for content in (self.on_disk, *self._coming.values()) if key in content]
        return said + self._doubtful.get(key, [])

    def begin(self, content: Mapping[Partition, V], *, sync: bool = True) -> "PendingWrite | None":
        """None when exactly that is there."""
        if self.is_settled and content == self.on_disk:
            return None
        self._newest += 1
        self._coming[self._newest] = content
        number = self._newest
        run = partial(self._run, number, content, sync)
        return PendingWrite(run, partial(self._is_there, number), partial(self._has_failed, number))

    def write(self, content: Mapping[Partition, V], *, sync: bool = True) -> None:
        """Raises OSError."""
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
            # Unless a newer one is there already.
            self.on_disk = content
            self._coming = {other: value for other, value in self._coming.items() if other > number}
            if number > self._doubtful_to:
                self._doubtful, self._doubtful_to = {}, 0

    def _has_failed(self, number: int) -> None:
        """However often that is so on a full disk, it takes memory for the values that differ only."""
        content = self._coming.pop(number, None)
        if content is None:
            # A newer one is there.
            return
        self._doubt(number, content)

    def _doubt(self, number: int, content: Mapping[Partition, V]) -> None:
        self._doubtful_to = max(self._doubtful_to, number)
        for key, value in content.items():
            values = self._doubtful.setdefault(key, [])
            if value not in values:
                values.append(value)
