"""Waits for controllers to have something new to show, so that nobody needs to look at clusters that are settled."""

import asyncio
import logging
from collections.abc import Callable

from sluicegate_operator.engine.snapshot import ClusterKey
from sluicegate_operator.fleet.controllers import ControllerPlace, ControllerView, newer_view

log = logging.getLogger(__name__)

WAIT_S = 15.0
"""A controller answers by then, with what it has. One that is frozen does not, and another has what is new: so long and
ASK_TIMEOUT_S may pass until that is asked, unless a pod is heard of before. Each answer is a connection of its own."""
AGAIN_AFTER_S = 1.0
"""Of a view that changes all the time each look shows what has come together in so long."""
TOO_SOON_S = 1.0
"""A controller that answers sooner with nothing new has no room for who waits."""


class Followers:
    """One task for each cluster that is followed. Belongs to one event loop."""

    def __init__(self, changed: Callable[[ClusterKey], None], otherwise_every_s: float) -> None:
        """`changed` is called once for what is followed, also when its controller does not answer any more;
        `otherwise_every_s`: how often one is asked that has no room for who waits."""
        self._changed = changed
        self._otherwise_every_s = otherwise_every_s
        self._tasks: dict[ClusterKey, asyncio.Task[None]] = {}

    def follow(self, key: ClusterKey, view: ControllerView) -> bool:
        """In place of what was followed before; whether that can be done."""
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
            # Nobody looks at a cluster that is followed: it must not be followed by what has ended.
            log.exception("cluster %s/%s is not followed any more", *key)
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
