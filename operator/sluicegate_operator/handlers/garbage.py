"""How this process finds garbage: reference counts free nearly everything, and what the collector has found in use when
there was much to look at it passes by from then on.

A full collection stops the event loop, for 0.3 s with ten thousand ConnectionQuotas, and it comes when there is much to
do. A circle that was in use when it was passed by is found when all is looked at again, once a day. Every connection of
asyncio's is such a circle: so nothing is passed by while a full collection is short.
"""

import gc
import time
from collections.abc import Callable, Mapping

_FULL = 2
_COLLECTIONS_BEFORE_FULL = 3
"""Of the generation before: a full one looks at some 30,000 objects more than the one before it."""
SHORT_S = 0.01
ALL_EVERY_S = 86400.0


class GarbageCollector:
    """Python's, for this process, from `start` to `stop`. `now` gives seconds."""

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
        # Python puts the next full one off until a quarter as many objects are new as this one has found in use: none.
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
