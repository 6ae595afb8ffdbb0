"""Waits for changes at controllers, so that settled clusters are not polled."""

import asyncio
import logging
from collections.abc import Callable

from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.fleet.kafka.controllers import ControllerPlace, ControllerView, newer_view

log = logging.getLogger(__name__)

WAIT_S = 15.0
"""Seconds within which a controller answers, even without changes.

A frozen controller does not answer, and another controller may have changes. This time and ASK_TIMEOUT_S may pass until
that one is asked, unless a pod event comes first. Each answer is a separate connection.
"""
AGAIN_AFTER_S = 1.0
"""Minimum seconds between two answers. Changes of a view that changes continuously are collected for this long."""
TOO_SOON_S = 1.0
"""Limit in seconds: a controller that answers sooner without changes has no capacity for waiting requests."""


class Followers:
    """The tasks that follow clusters' controllers, one for each cluster. They belong to one event loop."""

    def __init__(self, changed: Callable[[ClusterKey], None], otherwise_every_s: float) -> None:
        """Create the tasks' owner. `changed` is called once for each followed cluster, also if its controller is lost.

        `otherwise_every_s` is how often a controller is polled that has no capacity for waiting requests.
        """
        self._changed = changed
        self._otherwise_every_s = otherwise_every_s
        self._tasks: dict[ClusterKey, asyncio.Task[None]] = {}

    def follow(self, key: ClusterKey, view: ControllerView) -> bool:
        """Follow a cluster, in place of its previous view. Return whether its controller supports that."""
        self.forget(key)
        if view.active is None or view.overview is None or not view.overview.version:
            return False
        following = self._until_changed(key, view.active, view.overview.version)
        self._tasks[key] = asyncio.create_task(following, name=f"view of {key}")
        return True

    def forget(self, key: ClusterKey) -> None:
        if (task := self._tasks.pop(key, None)) is not None:
            task.cancel()

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for key in list(self._tasks):
            self.forget(key)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_changed(self, key: ClusterKey, active: ControllerPlace, version: str) -> None:
        try:
            await self._wait(active, version)
        except Exception:
            # A cluster that is followed is not polled, so a task that has ended must not count as following.
            log.exception("the view of cluster %s/%s is not followed any more", *key)
        del self._tasks[key]
        self._changed(key)

    async def _wait(self, active: ControllerPlace, version: str) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(AGAIN_AFTER_S)
        while True:
            asked_s = loop.time()
            now = await newer_view(active, version, WAIT_S)
            if now.overview is None or now.overview.version != version:
                return
            if loop.time() - asked_s < TOO_SOON_S:
                await asyncio.sleep(self._otherwise_every_s)
