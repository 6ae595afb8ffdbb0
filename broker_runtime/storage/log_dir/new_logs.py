"""The files of new logs: created in a thread for many at once, or on the event loop when one is needed.

On a busy disk each of a folder's four files takes milliseconds, because the file system's journal has to record it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from uuid import UUID

from broker_runtime.errors import KafkaError
from broker_runtime.storage.disk.checkpoint import PARTITION_METADATA, Partition, write_topic_id
from broker_runtime.storage.disk.disk import Disk
from broker_runtime.storage.disk.filesystem import draft_of
from broker_runtime.storage.disk.place import LogPlace
from broker_runtime.storage.log_dir.deleted import remove_folder
from broker_runtime.storage.segment.segment import Segment, new_segment


class NewLogs:
    """Files of logs that were created and that no log uses yet. After a crash they are logs without records.

    Until `done`, the caller must neither request a partition's files again nor take them: a second folder of that name
    would replace the first. (`cluster.reactions` runs the steps of one topic one after the other.) `place_of` returns
    None if no log is to be created. `clear` makes a name free on disk, and raises OSError and KafkaError. `remove`
    deletes files that are not wanted any more.
    """

    def __init__(
        self,
        disk: Disk,
        place_of: Callable[[Partition, UUID], LogPlace | None],
        clear: Callable[[LogPlace], None],
        remove: Callable[[LogPlace], None],
    ) -> None:
        self._disk = disk
        self._place_of = place_of
        self._clear = clear
        self._remove = remove
        self._made: dict[Partition, tuple[LogPlace, Segment]] = {}
        self._waiting: deque[tuple[Sequence[LogPlace], Callable[[], None]]] = deque()
        self._is_making = False

    def make_soon(self, logs: Iterable[tuple[Partition, UUID]], done: Callable[[], None]) -> None:
        """Create missing logs in a thread, for `LogManager.create` to take; then call `done`, in any case.

        A log that could not be created is left to `create`, which reports the reason. The caller calls `drop` once all
        logs that are still needed were created.
        """
        wanted = []
        for key, topic_id in logs:
            place = self._place_of(key, topic_id)
            if place is None or key in self._made:
                continue
            try:
                self._clear(place)
            except (OSError, KafkaError):
                continue
            wanted.append(place)
        if wanted:
            self._waiting.append((wanted, done))
            self._next()
        else:
            done()

    def _next(self) -> None:
        """Start one thread at a time: several would keep the event loop from the interpreter for longer."""
        if self._waiting and not self._is_making:
            self._is_making = True
            wanted, done = self._waiting.popleft()
            made: list[tuple[LogPlace, Segment]] = []
            self._disk.submit(partial(_make_all, wanted, made), partial(self._are_made, made, done))

    def _are_made(
        self, made: Sequence[tuple[LogPlace, Segment]], done: Callable[[], None], _error: Exception | None
    ) -> None:
        self._is_making = False
        self._made |= {(place.topic, place.partition): (place, segment) for place, segment in made}
        done()
        self._next()

    def take(self, place: LogPlace) -> Segment:
        """Return the first segment of the log, created now unless `make_soon` created it.

        Raises OSError, KafkaError.
        """
        place_made, segment = self._made.pop((place.topic, place.partition), (None, None))
        if segment is not None and place_made is not None:
            if place_made.topic_id == place.topic_id:
                return segment
            remove_folder(place.fs, place.folder)
        self._clear(place)
        return _make(place)

    def drop(self, topic_id: UUID) -> None:
        """Remove the remaining files of a topic, which may have been deleted before all its logs were created."""
        for place in [place for place, _ in self._made.values() if place.topic_id == topic_id]:
            del self._made[place.topic, place.partition]
            self._remove(place)


def _make_all(places: Sequence[LogPlace], made: list[tuple[LogPlace, Segment]]) -> None:
    """Create the files of these logs. Raises OSError at the first failure."""
    for place in places:
        made.append((place, _make(place)))


def _make(place: LogPlace) -> Segment:
    """Create the files of one log. Raises OSError, with nothing created."""
    place.fs.mkdir(place.folder)
    try:
        write_topic_id(place.fs, place.folder, place.topic_id)
        return new_segment(place, 0)
    except OSError:
        _unmake(place)
        raise


def _unmake(place: LogPlace) -> None:
    """Remove the folder by the names of its files: without descriptors it cannot be listed. Raises OSError."""
    fs, metadata = place.fs, place.folder / PARTITION_METADATA
    for path in (metadata, draft_of(metadata)):
        if fs.exists(path):
            fs.unlink(path)
    Segment(fs, place.folder, 0, 0).unlink()
    fs.rmdir(place.folder)
