"""Who waits for a log to move: long polls, acks=all, followers. Pure; time and the event loop come as arguments.

A producer's turn must not carry the work of all who waited for its record, so nobody is called back in the middle of an
append: `Wakes` calls them later, a bounded time in each turn of the event loop (or at once, in tests). A callback that
raises ends with that: whoever appends, and the others who wait, hear nothing of it.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import islice
from typing import Protocol

from broker_runtime.turn_lengths import TurnLengths

_LOGGER = logging.getLogger(__name__)
_IN_A_ROW_MAX = 16
"""Calls of one group before the next group has its turn: few who wait for one log are not behind many of another."""

Callback = Callable[[], None]


class Wakes(Protocol):
    """Who calls those that were woken."""

    def add(self, calls: Iterator[Callback]) -> None:
        """Call each once and in order, now or soon; what the iterator leaves out by then is not called."""
        ...


class AtOnce:
    """For tests, and where nothing waits."""

    def add(self, calls: Iterator[Callback]) -> None:
        for call in calls:
            _call(call)


class InTurns:
    """Calls back for at most about `turn_s` seconds in each turn of the event loop; `now` gives seconds."""

    __slots__ = ("_call_soon", "_now", "_queue", "_scheduled", "_turn_s", "lengths")

    def __init__(self, call_soon: Callable[[Callback], object], now: Callable[[], float], turn_s: float) -> None:
        self._call_soon = call_soon
        self._now = now
        self._turn_s = turn_s
        self._queue: deque[Iterator[Callback]] = deque()
        self._scheduled = False
        self.lengths = TurnLengths("waking")

    def add(self, calls: Iterator[Callback]) -> None:
        self._queue.append(calls)
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self._run)

    def _run(self) -> None:
        queue, now = self._queue, self._now
        begin_s = now_s = now()
        stop_s = begin_s + self._turn_s
        while queue:
            calls = queue.popleft()
            done = 0
            for call in islice(calls, _IN_A_ROW_MAX):
                _call(call)
                done += 1
                now_s = now()
                if now_s >= stop_s:
                    self.lengths.note(now_s - begin_s, now_s)
                    # Others first, also those who were added meanwhile.
                    queue.append(calls)
                    self._call_soon(self._run)
                    return
            if done == _IN_A_ROW_MAX:
                queue.append(calls)
        self._scheduled = False
        self.lengths.note(now_s - begin_s, now_s)


class OffsetWaiters:
    """Each waits for one offset to be passed. `waiting` is public because most appends find it empty."""

    __slots__ = ("_last_number", "_offsets", "_wakes", "waiting")

    def __init__(self, wakes: Wakes) -> None:
        self.waiting: dict[int, dict[int, Callback]] = {}
        """By offset, and by number in the order in which they came."""
        self._offsets: list[int] = []
        """A heap of the keys of `waiting`, and of some that nobody waits for any more."""
        self._wakes = wakes
        self._last_number = 0

    def add(self, offset: int, callback: Callback) -> Callback:
        """The result takes it back, also when it is due and was not called yet."""
        self._last_number += 1
        number = self._last_number
        group = self.waiting.get(offset)
        if group is None:
            group = self.waiting[offset] = {}
            heappush(self._offsets, offset)
        group[number] = callback

        def remove() -> None:
            if group.pop(number, None) is not None and not group and self.waiting.get(offset) is group:
                del self.waiting[offset]

        return remove

    def wake(self, end: int) -> None:
        """Call those whose offset lies below `end`. A callback may add others and take others back."""
        offsets, due = self._offsets, []
        while offsets and offsets[0] < end:
            group = self.waiting.pop(heappop(offsets), None)
            if group is not None:
                due.append(group)
        for group in due:
            self._wakes.add(_due(group))

    def wake_all(self) -> None:
        self._offsets.clear()
        groups = [self.waiting[offset] for offset in sorted(self.waiting)]
        self.waiting.clear()
        for group in groups:
            self._wakes.add(_due(group))


def _due(group: dict[int, Callback]) -> Iterator[Callback]:
    for number in list(group):
        callback = group.pop(number, None)
        if callback is not None:
            yield callback


class Watcher(Protocol):
    """Who wants to know that a log has changed, and looks for itself what has."""

    def changed(self) -> None:
        """The log has changed since this was added to its watchers; it is told once and has to be added again."""
        ...

    def high_watermark_moved(self) -> None:
        """Of a log's followers, who are served whatever it is: told instead of `changed`, and the watcher stays."""
        ...


class Watchers:
    """Who wants to hear of a log's next change, whatever it is. To tell a thousand costs an append as much as one."""

    __slots__ = ("_wakes", "members")

    def __init__(self, wakes: Wakes) -> None:
        self.members: dict[Watcher, None] = {}
        """`add` what is to hear; public because most appends find it empty."""
        self._wakes = wakes

    def add(self, watcher: Watcher) -> dict[Watcher, None]:
        """Where it stands now: whoever takes it out of there will not be told."""
        self.members[watcher] = None
        return self.members

    def tell(self) -> None:
        """Soon, and in turns."""
        if self.members:
            told, self.members = self.members, {}
            self._wakes.add(_told(told))

    def tell_at_once(self) -> None:
        """For a few who do little."""
        if self.members:
            told, self.members = self.members, {}
            for call in _told(told):
                _call(call)

    def tell_high_watermark(self) -> None:
        """Nothing else has changed."""
        for watcher in tuple(self.members):
            _call(watcher.high_watermark_moved)


def _told(members: dict[Watcher, None]) -> Iterator[Callback]:
    for watcher in list(members):
        if watcher in members:
            del members[watcher]
            yield watcher.changed


def _call(callback: Callback) -> None:
    try:
        callback()
    except Exception:
        _LOGGER.exception("one of those who waited for a log has failed; the log and the others go on")
