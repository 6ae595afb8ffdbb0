"""A coordinator's timers on the event loop. The action of a due timer is passed to the runtime."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from broker_runtime.coordination.timers import Timers

A = TypeVar("A")


class TimerService(Generic[A]):
    """The timers of a coordinator, with one alarm of the event loop.

    Timers are soft state: the end of a term clears them.
    """

    def __init__(self) -> None:
        self.on_due: Callable[[Hashable, A], None] = _nobody
        self._timers: Timers[A] = Timers()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_due_s = 0.0
        """Due time of `_alarm`: in uvloop an alarm that is due at once has no `when`."""
        self._due: set[Hashable] = set()
        """Keys of due timers that wait in the runtime's queue."""
        self._next: list[tuple[Hashable, A]] = []
        self._once_taken: list[Callable[[], None]] = []

    def __contains__(self, key: object) -> bool:
        """Whether the key has a timer that is not due yet."""
        return key in self._timers

    def schedule(self, key: Hashable, delay_s: float, action: A) -> None:
        """Set the key's timer, and replace the previous one."""
        due_s = asyncio.get_running_loop().time() + delay_s
        self._timers.schedule(key, due_s, action)
        if self._alarm is None or self._alarm_due_s > due_s:
            self._set_alarm()

    def schedule_if_absent(self, key: Hashable, delay_s: float, action: A) -> None:
        """Set the key's timer unless the key has one, pending or due.

        A due timer that waits in the queue counts too: if requests ahead of it could set it again, it would never run.
        """
        if key not in self._timers and key not in self._due:
            self.schedule(key, delay_s, action)

    def continue_with(self, key: Hashable, action: A) -> None:
        """Schedule the next chunk of a long decision, ahead of the queue, once the log has accepted this chunk.

        If each chunk waited in the queue again, a busy coordinator would never reach the last one.
        """
        self._next.append((key, action))

    def take_next(self) -> list[tuple[Hashable, A]]:
        """Remove and return the chunks that the last decision scheduled with `continue_with`."""
        found, self._next = self._next, []
        return found

    def once_taken(self, act: Callable[[], None]) -> None:
        """Call `act` when the log has accepted records of the current decision; never call it if the log refuses all.

        For timers of things that these records create or end.
        """
        self._once_taken.append(act)

    def was_taken(self) -> None:
        """Run the `once_taken` actions of the last decision after its records were applied."""
        if self._once_taken:
            acts, self._once_taken = self._once_taken, []
            for act in acts:
                act()

    def was_refused(self) -> None:
        """Drop the `once_taken` actions of the last decision, because the log has refused all of its records."""
        self._once_taken.clear()

    def begin(self, key: Hashable) -> None:
        """Record that the due timer of this key is running."""
        self._due.discard(key)

    def cancel(self, key: Hashable) -> None:
        self._timers.cancel(key)

    def clear(self) -> None:
        self._timers.clear()
        self._due.clear()
        self._next.clear()
        self._once_taken.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _set_alarm(self) -> None:
        """Set the alarm to the earliest timer. An alarm that rings early, for a cancelled timer, is only set again."""
        due_s = self._timers.next_due_s()
        if due_s is None or (self._alarm is not None and self._alarm_due_s <= due_s):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_at(due_s, self._ring)
        self._alarm_due_s = due_s

    def _ring(self) -> None:
        self._alarm = None
        for key, action in self._timers.take_due(asyncio.get_running_loop().time()):
            self._due.add(key)
            self.on_due(key, action)
        self._set_alarm()


def _nobody(key: Hashable, action: object) -> None:
    raise RuntimeError(f"the timer {key} is due, but no runtime is attached to these timers")
