"""A coordinator's timers on the event loop: what is due goes to whoever decides."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from broker_runtime.coordination.timers import Timers

A = TypeVar("A")


class TimerService(Generic[A]):
    """One alarm of the event loop for all timers of a coordinator. They are soft state: a term's end forgets them."""

    def __init__(self) -> None:
        self.on_due: Callable[[Hashable, A], None] = _nobody
        self._timers: Timers[A] = Timers()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_due_s = 0.0
        """Of `_alarm`; uvloop gives an alarm that is due at once no `when`."""
        self._due: set[Hashable] = set()
        """Keys of timers that wait for their turn."""
        self._next: list[tuple[Hashable, A]] = []
        self._once_taken: list[Callable[[], None]] = []

    def __contains__(self, key: object) -> bool:
        """Whether there is a timer that is not due yet."""
        return key in self._timers

    def schedule(self, key: Hashable, delay_s: float, action: A) -> None:
        """In the place of the key's timer, if it has one."""
        due_s = asyncio.get_running_loop().time() + delay_s
        self._timers.schedule(key, due_s, action)
        if self._alarm is None or self._alarm_due_s > due_s:
            self._set_alarm()

    def schedule_if_absent(self, key: Hashable, delay_s: float, action: A) -> None:
        """One that is due and waits for its turn is there, too: where all who come before it set it anew it would never
        have one."""
        if key not in self._timers and key not in self._due:
            self.schedule(key, delay_s, action)

    def go_on(self, key: Hashable, action: A) -> None:
        """Of a decision that takes many slices: what comes next, before all who wait, once the log has taken this one.
        Where each slice waited for its turn anew, a busy coordinator would never come to the last."""
        self._next.append((key, action))

    def take_next(self) -> list[tuple[Hashable, A]]:
        """What the last decision has left to do."""
        found, self._next = self._next, []
        return found

    def once_taken(self, act: Callable[[], None]) -> None:
        """Call `act` when the log has taken records of the decision that is being made, and never if it refuses all.

        For timers of what only these records make, or end."""
        self._once_taken.append(act)

    def was_taken(self) -> None:
        """Do what the last decision has left for the time when its records are applied."""
        if self._once_taken:
            acts, self._once_taken = self._once_taken, []
            for act in acts:
                act()

    def was_refused(self) -> None:
        """The last decision was refused, and nothing of it is applied."""
        self._once_taken.clear()

    def begin(self, key: Hashable) -> None:
        """Its turn has come."""
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
        """An alarm that rings too early, as its timer was cancelled, is only set again."""
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
    raise RuntimeError(f"the timer {key} is due, and no runtime has these timers")
