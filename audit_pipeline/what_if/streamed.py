"""Replays a boot while its events are read: memory has the attempts of some minutes, not those of a day. Pure.

A replay needs the outcome of an attempt when it arrives, so events are read ahead. A log with fewer attempts than are
read ahead is replayed as a whole.
"""

from collections.abc import Callable, Sequence
from typing import Final

from audit_pipeline.what_if.attempts import Attempt, Course, Outcome, RecordedEvent
from audit_pipeline.what_if.recording import Assembly, EarlyConnection
from audit_pipeline.what_if.replay import Limits, Replay

AHEAD_MAX: Final = 200_000
"""Attempts that are read ahead: half of them are then replayed. Each takes 1.4 kB."""


class StreamedReplay:
    """Reads events in the order of their numbers. `decided` is called once with each attempt, in any order.

    `early` are connections that are known to be open at the start: without them, only those that end among the first
    events are. InvalidLimitError may be raised by each method.
    """

    def __init__(
        self,
        limits: Limits,
        decided: Callable[[Attempt], None],
        early: Sequence[EarlyConnection] = (),
        ahead_max: int = AHEAD_MAX,
    ) -> None:
        self._limits = limits
        self._decided = decided
        self._ahead_max = ahead_max
        self.assembly = Assembly(early)
        self._replay: Replay | None = None
        self._undecided: dict[int, Attempt] = {}
        """Attempts that the replay has received and not decided yet, by the number of their first event."""

    def add(self, event: RecordedEvent) -> None:
        """Read an event, and replay the first attempts if enough are read ahead."""
        self.assembly.add(event)
        if len(self.assembly) >= self._ahead_max:
            self._feed(self._ahead_max // 2)

    def finish(self) -> int:
        """Replay the rest; return how many attempts were read too late to be replayed at their time."""
        assembly = self.assembly
        assembly.end_waits()
        run = self._feed(len(assembly))
        run.finish(assembly.ended_us)
        for attempt in self._undecided.values():
            limit = None if attempt.replayed is None else attempt.replayed.limit
            attempt.replayed = Course(Outcome.WAITING, assembly.ended_us, limit)
            self._decided(attempt)
        self._undecided.clear()
        return run.late

    def _feed(self, count: int) -> Replay:
        assembly = self.assembly
        taken = assembly.take(count)
        run = self._replay
        if run is None:
            names = {attempt.listener for attempt in taken} | {early.listener for early in assembly.early}
            run = self._replay = Replay(
                self._limits, sorted(names), assembly.early, assembly.began_us, assembly.open_times, self._on_decided
            )
        run.left(assembly.left)
        run.closed(assembly.closed)
        assembly.left.clear()
        assembly.closed.clear()
        for attempt in taken:
            self._undecided[attempt.first_seq] = attempt
        run.feed(taken)
        return run

    def _on_decided(self, attempt: Attempt) -> None:
        self._undecided.pop(attempt.first_seq, None)
        self._decided(attempt)
