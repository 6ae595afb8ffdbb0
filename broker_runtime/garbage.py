"""How this process finds garbage: reference counts free nearly everything, and the collector looks for circles only
among what is younger than its last full look. Shell.

A full collection stops everything, for 0.1 s with a million objects or less (3,000 partitions, 5,000 consumers that
wait). What one has found in use is passed by from then on (`gc.freeze`), and it comes before there is much to look at,
so each object is looked at once by it. A circle that was in use then is not found when it has ended: whatever there is
much of must not refer to itself any more once it has ended, which tests say of partitions and requests.
"""

import gc
from collections.abc import Callable, Mapping

from broker_runtime.turn_lengths import TurnLengths

_YOUNG_MAX, _YOUNG_COLLECTIONS = 700, 10
"""Python's own: a collection of the youngest for so many new objects, of the next generation for so many of these."""
_COLLECTIONS_BEFORE_FULL = 3
"""Of that next generation. So a full one looks at some 30,000 objects at most, which takes 2 to 3 ms."""
_FULL = 2


class GarbageCollector:
    """Python's, for this process, from `start` to `stop`. `lengths` has how long it stopped everything, `found` how
    many objects were garbage that no reference count had freed, by generation. `now` gives seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._began_s = 0.0
        self._thresholds = gc.get_threshold()
        self.lengths = TurnLengths("garbage collection")
        self.found = [0, 0, 0]

    def start(self) -> None:
        """What is there already, modules for the most part, is looked at once and stays."""
        gc.set_threshold(_YOUNG_MAX, _YOUNG_COLLECTIONS, _COLLECTIONS_BEFORE_FULL)
        gc.collect()
        gc.freeze()
        # Python puts the next full one off until a quarter as many objects are new as this one has found in use: none.
        gc.collect()
        gc.callbacks.append(self._on_collection)

    def stop(self) -> None:
        """As it was before; a second call does nothing."""
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)
            gc.unfreeze()
            gc.set_threshold(*self._thresholds)

    def _on_collection(self, phase: str, info: Mapping[str, int]) -> None:
        now_s = self._now()
        if phase == "start":
            self._began_s = now_s
            return
        generation = info["generation"]
        self.found[generation] += info["collected"]
        self.lengths.note(now_s - self._began_s, now_s, f"generation {generation}")
        if generation == _FULL:
            gc.freeze()
