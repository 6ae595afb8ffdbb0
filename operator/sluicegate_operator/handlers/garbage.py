"""How this process finds garbage: reference counts free nearly everything, and what the collector has once found in use
it passes by from then on.

A full collection stops the event loop, for 0.3 s with ten thousand ConnectionQuotas, and it comes when there is much to
do. A circle that was in use when it was passed by is found when all is looked at again, once a day.
"""

import gc
import time
from collections.abc import Callable, Mapping

_FULL = 2
_COLLECTIONS_BEFORE_FULL = 3
"""Of the generation before: a full one looks at some 30,000 objects at most, which takes 2 to 3 ms."""
ALL_EVERY_S = 86400.0


class GarbageCollector:
    """Python's, for this process, from `start` to `stop`. `now` gives seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._thresholds = gc.get_threshold()
        self._all_at_s = now() + ALL_EVERY_S

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
        if phase != "stop" or info["generation"] != _FULL:
            return
        if self._now() < self._all_at_s:
            gc.freeze()
        else:
            self._all_at_s = self._now() + ALL_EVERY_S
            gc.unfreeze()
