"""A `Disk` whose works wait until a test finishes them: syncs as slow as a test likes."""

from collections.abc import Callable

from broker_runtime.storage.disk.disk import Done


class ManualDisk:
    """A disk of pending works; with `slow` False each work is done at once, as when a test prepares its scene."""

    def __init__(self) -> None:
        self.slow = True
        self.begun = 0
        self._waiting: list[tuple[Callable[[], None], Done]] = []

    def submit(self, work: Callable[[], None], done: Done) -> None:
        self.begun += 1
        self._waiting.append((work, done))
        if not self.slow:
            self.finish_all()

    @property
    def busy(self) -> int:
        return len(self._waiting)

    def finish_one(self) -> None:
        work, done = self._waiting.pop(0)
        try:
            work()
        except OSError as error:
            done(error)
        else:
            done(None)

    def finish_all(self) -> None:
        while self._waiting:
            self.finish_one()
