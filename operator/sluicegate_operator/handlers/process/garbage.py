"""Tunes Python's garbage collector: objects that survive a long full collection are skipped from then on.

Reference counts free nearly everything. A full collection blocks the event loop, for 0.3 s with ten thousand
ConnectionQuotas, and it runs when the process is busy. So after a full collection that was long, gc.freeze exempts the
objects in use from later ones. A reference cycle that was in use at that time is found when all objects are scanned
again, once a day. Every asyncio connection is such a cycle, so nothing is frozen while full collections are short.
"""

import gc
import time
from collections.abc import Callable, Mapping

_FULL = 2
_COLLECTIONS_BEFORE_FULL = 3
"""Collections of the middle generation before a full one, which scans some 30,000 objects more than the one before."""
SHORT_S = 0.01
ALL_EVERY_S = 86400.0


class GarbageCollector:
    """Python's garbage collector for this process, from `start` to `stop`. `now` returns seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._thresholds = gc.get_threshold()
        self._all_at_s = now() + ALL_EVERY_S
        self._began_s = 0.0

    def start(self) -> None:
        young, old, _ = self._thresholds
        gc.set_threshold(young, old, _COLLECTIONS_BEFORE_FULL)
        gc.collect()
        gc.freeze()
        # Python delays a full collection until the new objects are a quarter of those that the last one found in use.
        # After this one, that is none.
        gc.collect()
        gc.callbacks.append(self._on_collection)

    def stop(self) -> None:
        gc.callbacks.remove(self._on_collection)
        gc.unfreeze()
        gc.set_threshold(*self._thresholds)

    def _on_collection(self, phase: str, info: Mapping[str, int]) -> None:
        if info["generation"] != _FULL:
            return
        now_s = self._now()
        if phase == "start":
            self._began_s = now_s
        elif now_s >= self._all_at_s:
            self._all_at_s = now_s + ALL_EVERY_S
            gc.unfreeze()
        elif now_s - self._began_s > SHORT_S:
            gc.freeze()
