"""The owners of a group's partitions as seen from outside, and their committed offsets: the rules of groups.

A member is sure of what it owns until its session may have ended: one session after it sent the last heartbeat that was
answered. No other member may own the same until then.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

NOTHING = -1
LetGo = Callable[[], float | None]
"""Returns the time at which the coordinator dropped a member that may not know it yet; None: it has not."""


@dataclass(slots=True)
class Held:
    member: str
    term: str
    """The generation or the epoch of its member."""
    until_s: float
    let_go: LetGo


@dataclass(slots=True)
class Committed:
    """The known commits of one partition: numbers that grow."""

    acknowledged: int = NOTHING
    unknown: set[int] = field(default_factory=set)
    """Commits without an answer: each of them may have happened, or may still happen."""

    def explains(self, offset: int) -> bool:
        return offset == self.acknowledged or offset in self.unknown


class Ownership:
    """The owners and commits of all partitions of one group's topic."""

    def __init__(self, group: str, now: Callable[[], float], wrong: Callable[[str], None]) -> None:
        self.group = group
        self.committed: dict[int, Committed] = {}
        self.shared = 0
        """Number of partitions that the leader of a classic generation assigned last."""
        self.commits = self.handovers = 0
        """Number of partitions that changed from one member to another."""
        self.shared_unnoticed = 0
        """Number of partitions that were assigned while a dropped member still owned them without knowing."""
        self._read: dict[int, int] = {}
        """The offset up to which everything was read."""
        self._started: dict[int, tuple[float, int]] = {}
        """Time of the last start of each partition, and its offset."""
        self._now, self._wrong = now, wrong
        self._held: dict[int, Held] = {}
        self._last: dict[int, str] = {}

    def claim(
        self, member: str, term: str, partitions: Iterable[int], until_s: float, let_go: LetGo = lambda: None
    ) -> None:
        """Note that a coordinator has just assigned these partitions to the member, or confirmed them.

        A member that was dropped and does not know it may own them as well (decision 35), see `noticed`.
        """
        now_s = self._now()
        for partition in partitions:
            held = self._held.get(partition)
            if held is not None and held.member != member and now_s < held.until_s:
                if held.let_go() is None and let_go() is None:
                    self._wrong(
                        f"{self.group}: partition {partition} is {member}'s in {term}, and for another "
                        f"{held.until_s - now_s:.3f} s {held.member}'s in {held.term}"
                    )
                self.shared_unnoticed += 1
            self.handovers += self._last.get(partition, member) != member
            self._last[partition] = member
            if let_go() is None:
                self._held[partition] = Held(member, term, until_s, let_go)

    def release(self, member: str, partitions: Iterable[int]) -> None:
        for partition in partitions:
            held = self._held.get(partition)
            if held is not None and held.member == member:
                del self._held[partition]

    def holders(self) -> Mapping[int, Held]:
        """Members that may be sure of their partitions now."""
        now_s = self._now()
        return {partition: held for partition, held in self._held.items() if now_s < held.until_s}

    def is_committed(self, partition: int, offset: int) -> None:
        """Note the offset that a new owner found; from now on earlier owners' commits no longer count."""
        known = self.committed.setdefault(partition, Committed())
        if not known.explains(offset):
            self._wrong(
                f"{self.group}: offset {offset} of partition {partition} is committed, {known.acknowledged} was "
                f"acknowledged, of {sorted(known.unknown)[-3:]} it is not known"
            )
        known.acknowledged = offset
        known.unknown.clear()

    def commit_begins(self, partition: int, offset: int) -> bool:
        """Note a commit without an answer yet; return whether it is the first try."""
        known = self.committed.setdefault(partition, Committed())
        first = offset not in known.unknown
        known.unknown.add(offset)
        return first

    def commit_is_acknowledged(self, partition: int, offset: int, *, first: bool) -> None:
        known = self.committed[partition]
        known.acknowledged = offset
        self.commits += 1
        if first:
            # With several tries one may still be in flight.
            known.unknown.discard(offset)

    # For members that their coordinator calls, and that it commits for

    def is_started(self, partition: int, offset: int) -> None:
        """Note that a member is told to read from this offset on; below 0: from the beginning."""
        found = max(offset, NOTHING)
        self.commits += found > self.committed.get(partition, Committed()).acknowledged
        self.is_committed(partition, found)
        if found > self._read.get(partition, 0):
            self._wrong(
                f"{self.group}: partition {partition} is read from {found} on, and nobody has read what is between "
                f"{self._read.get(partition, 0)} and that"
            )
        self._started[partition] = self._now(), found

    def has_read(self, partition: int, begin: int, end: int) -> None:
        if begin <= self._read.get(partition, 0):
            self._read[partition] = max(self._read.get(partition, 0), end)

    def is_told(self, partition: int, offset: int) -> None:
        """Note the position that a consumer reported: its coordinator may commit it from now on."""
        if offset >= 0:
            self.committed.setdefault(partition, Committed()).unknown.add(offset)

    def stop_was_taken(self, told: Mapping[int, int], since_s: float) -> None:
        """Note that a consumer which stopped at `since_s` with these offsets has been started again.

        The offsets were committed before that. It is a mistake if a consumer was started from an earlier offset since
        the stop.
        """
        for partition, offset in told.items():
            known = self.committed.setdefault(partition, Committed())
            started_s, found = self._started.get(partition, (0.0, NOTHING))
            if started_s >= since_s and found < offset:
                self._wrong(
                    f"{self.group}: partition {partition} is read from {found} on, though {offset} was told before"
                )
            if offset > known.acknowledged:
                known.acknowledged = offset
                known.unknown = {each for each in known.unknown if each > offset}
                self.commits += 1

    def noticed(self, member: str, until_s: float, let_go_s: float | None, within_s: float) -> None:
        """Note that a member has read until `until_s`, though it may have been dropped before."""
        late_s = 0.0 if let_go_s is None else until_s - let_go_s
        if late_s >= within_s:
            self._wrong(f"{self.group}: {member} was let go, and has read on for {late_s:.3f} s")
