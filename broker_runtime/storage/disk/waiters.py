"""Waiters for changes of a log: long polls, acks=all, followers. Pure; time and the event loop are arguments.

An append must not run the work of all requests that wait for its record, so it calls no waiter itself. `Wakes` calls
them later, for a bounded time in each iteration of the event loop (or at once, in tests). If a callback raises, only
that callback ends: neither the append nor other waiters notice.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import islice
from typing import Protocol

from broker_runtime.slicing.slice_lengths import SliceLengths

_LOGGER = logging.getLogger(__name__)
_IN_A_ROW_MAX = 16
"""Calls of one group before the next group follows: few waiters of one log must not wait for many of another."""

Callback = Callable[[], None]


class Wakes(Protocol):
    """Runs the callbacks of woken waiters."""

    def add(self, calls: Iterator[Callback]) -> None:
        """Call each callback of the iterator once, in order, at once or later.

        The iterator is read only when the callbacks run: until then it may drop callbacks.
        """
        ...


class AtOnce:
    """Calls back synchronously: for tests, and for logs without waiters."""

    def add(self, calls: Iterator[Callback]) -> None:
        for call in calls:
            _call(call)


class SlicedCallbacks:
    """Calls back for at most about `slice_s` seconds in each iteration of the event loop.

    `now` returns the time in seconds.
    """

    __slots__ = ("_call_soon", "_now", "_queue", "_scheduled", "_slice_s", "lengths")

    def __init__(self, call_soon: Callable[[Callback], object], now: Callable[[], float], slice_s: float) -> None:
        self._call_soon = call_soon
        self._now = now
        self._slice_s = slice_s
        self._queue: deque[Iterator[Callback]] = deque()
        self._scheduled = False
        self.lengths = SliceLengths("waking")

    def add(self, calls: Iterator[Callback]) -> None:
        self._queue.append(calls)
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self._run)

    def _run(self) -> None:
        queue, now = self._queue, self._now
        begin_s = now_s = now()
        stop_s = begin_s + self._slice_s
        while queue:
            calls = queue.popleft()
            done = 0
            for call in islice(calls, _IN_A_ROW_MAX):
                _call(call)
                done += 1
                now_s = now()
                if now_s >= stop_s:
                    self.lengths.note(now_s - begin_s, now_s)
                    # Other groups first, also those that were added meanwhile.
                    queue.append(calls)
                    self._call_soon(self._run)
                    return
            if done == _IN_A_ROW_MAX:
                queue.append(calls)
        self._scheduled = False
        self.lengths.note(now_s - begin_s, now_s)


class OffsetWaiters:
    """Callbacks that each wait for a log to pass one offset.

    `waiting` is public because most appends find it empty.
    """

    __slots__ = ("_last_number", "_offsets", "_wakes", "waiting")

    def __init__(self, wakes: Wakes) -> None:
        self.waiting: dict[int, dict[int, Callback]] = {}
        """Callbacks by offset, and by their number in order of arrival."""
        self._offsets: list[int] = []
        """A heap of the keys of `waiting`, and of some offsets without waiters."""
        self._wakes = wakes
        self._last_number = 0

    def add(self, offset: int, callback: Callback) -> Callback:
        """Add a callback that waits for the log to reach `offset`.

        Return a function that cancels it, even if the callback is due and was not called yet.
        """
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
        """Call the callbacks that wait for offsets below `end`. A callback may add and cancel other callbacks."""
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
    """An object that is notified of a change of a log, and reads the log to find out what has changed."""

    def changed(self) -> None:
        """Receive the notification that the log has changed.

        It comes once: the watcher then has to be added again.
        """
        ...

    def high_watermark_moved(self) -> None:
        """Receive the notification that only the high watermark has moved.

        A follower's reads do not depend on the high watermark, so the watcher stays.
        """
        ...


class Watchers:
    """Watchers of a log's next change of any kind.

    Notifying a thousand of them costs an append as much as notifying one.
    """

    __slots__ = ("_wakes", "members")

    def __init__(self, wakes: Wakes) -> None:
        self.members: dict[Watcher, None] = {}
        """Current watchers; public because most appends find it empty. Use `add` to add one."""
        self._wakes = wakes

    def add(self, watcher: Watcher) -> dict[Watcher, None]:
        """Add a watcher of the log.

        Return the current members: removing the watcher from them cancels the notification.
        """
        self.members[watcher] = None
        return self.members

    def notify(self) -> None:
        """Notify all members soon, in iterations of the event loop."""
        if self.members:
            told, self.members = self.members, {}
            self._wakes.add(_callbacks_of(told))

    def notify_at_once(self) -> None:
        """Notify all members synchronously: for a few watchers that do little."""
        if self.members:
            told, self.members = self.members, {}
            for call in _callbacks_of(told):
                _call(call)

    def notify_high_watermark(self) -> None:
        """Notify all members that only the high watermark has moved."""
        for watcher in tuple(self.members):
            _call(watcher.high_watermark_moved)


def _callbacks_of(members: dict[Watcher, None]) -> Iterator[Callback]:
    for watcher in list(members):
        if watcher in members:
            del members[watcher]
            yield watcher.changed


def _call(callback: Callback) -> None:
    try:
        callback()
    except Exception:
        _LOGGER.exception("the callback of a request that waited for a log failed; the log and other requests continue")
