"""The garbage collector of this process: short collections of young objects, and rare complete ones. Shell.

Reference counts free nearly everything. The collector finds reference cycles. A collection stops all threads for 0.3 to
0.5 us per object that it reads, which is 30 ms for an idle broker and 0.3 s for a million objects. So automatic
collections of the oldest generation run early, and the objects that they find in use are frozen: later collections skip
them (`gc.freeze`).

A cycle that was in use at that moment and becomes garbage later stays in memory. Requests, errors and partitions create
no cycle, which tests check; other code, such as an observer's, may. Therefore a complete collection reads the frozen
objects, too: soon after the resident memory has grown, and otherwise at long intervals.
"""

import gc
import time
from collections import deque
from collections.abc import Callable, Mapping

from broker_runtime.node.process.process_metrics import resident_bytes, return_free_memory_soon
from broker_runtime.slicing.slice_lengths import SliceLengths

_YOUNG_MAX, _YOUNG_COLLECTIONS = 700, 10
"""Python's own thresholds: new objects per youngest collection, and youngest collections per next one."""
_COLLECTIONS_BEFORE_FULL = 3
"""Collections of that next generation before one of the oldest, which then reads about 30,000 objects: 2 to 3 ms."""
_FULL = 2
_GROWTH_FACTOR, _GROWTH_BYTES = 1.5, 64 << 20
"""Limits beyond which memory has grown: the resident memory's floor times this factor, plus this many bytes."""
_SAMPLES = 5
"""Ticks for which it must stay there: the memory of a large request or response is temporary."""
_PAUSE_AFTER_GROWTH, _PAUSE = 100, 100_000
"""Pause after a complete collection, as a multiple of the processor time that it took.

So collections take at most a hundredth of the time while memory grows, else a hundred-thousandth.
"""


class GarbageCollector:
    """Python's garbage collector, configured for this process between `start` and `stop`.

    `lengths` has the lengths of the collections, `found` the number of objects that they freed, by generation.
    """

    def __init__(
        self,
        now: Callable[[], float],
        resident: Callable[[], int] = resident_bytes,
        spent: Callable[[], float] = time.thread_time,
        return_memory: Callable[[], None] = return_free_memory_soon,
    ) -> None:
        """`now` returns seconds that never decrease, and `spent` the seconds of processor time of this thread.

        `resident` returns the bytes of memory that the process has. `return_memory` returns memory that the allocator
        keeps to the system.
        """
        self._now = now
        self._spent = spent
        self._return_memory = return_memory
        self._resident = resident
        self._began_s = 0.0
        self._thresholds = gc.get_threshold()
        self._completed_s = self._cost_s = 0.0
        """End of the last complete collection, and the processor time that it took."""
        self._floor = 0
        """The least resident memory since the last complete collection, in bytes."""
        self._samples: deque[int] = deque(maxlen=_SAMPLES)
        self.lengths = SliceLengths("garbage collection")
        self.found = [0, 0, 0]

    def start(self) -> None:
        """Set the thresholds of the collector, and freeze the existing objects, most of them modules."""
        gc.set_threshold(_YOUNG_MAX, _YOUNG_COLLECTIONS, _COLLECTIONS_BEFORE_FULL)
        self._collect_all()
        gc.callbacks.append(self._on_collection)

    def stop(self) -> None:
        """Restore the previous state of the collector. A second call does nothing."""
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)
            gc.unfreeze()
            gc.set_threshold(*self._thresholds)

    def tick(self) -> None:
        """Run a complete collection if it is due. Call this on the event loop about once a second."""
        resident = self._resident()
        self._samples.append(resident)
        self._floor = min(self._floor, resident)
        has_grown = self._has_grown
        pause = _PAUSE_AFTER_GROWTH if has_grown else _PAUSE
        if self._now() - self._completed_s >= pause * self._cost_s:
            self._collect_all()
            if has_grown:
                # Otherwise the next growth would be measured from a floor that includes garbage.
                self._return_memory()

    @property
    def _has_grown(self) -> bool:
        is_steady = len(self._samples) == _SAMPLES
        return is_steady and min(self._samples) > self._floor * _GROWTH_FACTOR + _GROWTH_BYTES

    def _collect_all(self) -> None:
        began_s = self._spent()
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        # Python defers the next full collection until a quarter as many objects are new as this one found in use: none.
        gc.collect()
        self._completed_s = self._now()
        self._cost_s = self._spent() - began_s
        self._samples.clear()
        self._floor = self._resident()

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
