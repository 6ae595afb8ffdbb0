"""The tasks of replication on one broker, which run until they are cancelled."""

import asyncio
import logging
from collections.abc import Callable, Coroutine

log = logging.getLogger(__name__)


class ReplicationTasks:
    """The running tasks of the replica manager. A task that ends because of a bug is reported."""

    def __init__(self) -> None:
        self.failed: Callable[[BaseException], None] | None = None
        """Called when a task ends because of a bug."""
        self._running: dict[asyncio.Task[None], None] = {}
        """The running tasks, in the order in which they were started."""

    def spawn(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._running[task] = None
        task.add_done_callback(self._ended)
        return task

    async def stop(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        tasks = list(self._running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.critical("the task of %s failed", task.get_name(), exc_info=error)
            if self.failed is not None:
                self.failed(error)
