"""Who owns which partition of a group, seen from outside, and what was committed for it: the rules of groups.

A member is sure of what it owns until its session may have ended: that long after it sent the last heartbeat that was
answered. Nobody else may own the same until then.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

NOTHING = -1
LetGo = Callable[[], float | None]
"""Since when the coordinator has given a member up that may not know it yet; None: it has not."""


@dataclass(slots=True)
class Held:
    member: str
    term: str
    """The generation or the epoch of its member."""
    until_s: float
    let_go: LetGo


@dataclass(slots=True)
class Committed:
    """Of one partition, what is known of what was committed: numbers that grow."""

    acknowledged: int = NOTHING
    unknown: set[int] = field(default_factory=set)
    """Those that nobody answered for: each of them may have come true, or come true yet."""

    def explains(self, offset: int) -> bool:
        return offset == self.acknowledged or offset in self.unknown


class Ownership:
    """Of all partitions of one group's topic."""

    def __init__(self, group: str, now: Callable[[], float], wrong: Callable[[str], None]) -> None:
        self.group = group
        self.committed: dict[int, Committed] = {}
        self.shared = 0
        """How many partitions the leader of a classic generation has shared last."""
        self.commits = self.handovers = 0
        """Partitions that went from one member to another."""
        self.shared_unnoticed = 0
        """Partitions that somebody got while another had them who did not know yet that it was let go."""
        self._read: dict[int, int] = {}
        """The offset up to which somebody has read everything."""
        self._started: dict[int, tuple[float, int]] = {}
        """When somebody was last told to read, and from which offset on."""
        self._now, self._wrong = now, wrong
        self._held: dict[int, Held] = {}
        self._last: dict[int, str] = {}

    def claim(
        self, member: str, term: str, partitions: Iterable[int], until_s: float, let_go: LetGo = lambda: None
    ) -> None:
        """A coordinator has just said, or said again, that the member has these.

        Another who has been let go and does not know it may have them beside it (decision 35), see `noticed`.
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
        """Those who may be sure now."""
        now_s = self._now()
        return {partition: held for partition, held in self._held.items() if now_s < held.until_s}

    def is_committed(self, partition: int, offset: int) -> None:
        """Somebody who has just got the partition finds this; commits of earlier owners count no more from now on."""
        known = self.committed.setdefault(partition, Committed())
        if not known.explains(offset):
            self._wrong(
                f"{self.group}: offset {offset} of partition {partition} is committed, {known.acknowledged} was "
                f"acknowledged, of {sorted(known.unknown)[-3:]} it is not known"
            )
        known.acknowledged = offset
        known.unknown.clear()

    def commit_begins(self, partition: int, offset: int) -> bool:
        """Whether it is the first try: until there is an answer nobody knows."""
        known = self.committed.setdefault(partition, Committed())
        first = offset not in known.unknown
        known.unknown.add(offset)
        return first

    def commit_is_acknowledged(self, partition: int, offset: int, *, first: bool) -> None:
        known = self.committed[partition]
        known.acknowledged = offset
        self.commits += 1
        if first:
            # Of more tries one may be under way still.
            known.unknown.discard(offset)

    # Of members that are called by their coordinator, which commits for them

    def is_started(self, partition: int, offset: int) -> None:
        """Somebody is told to read from there on; below 0: from the beginning."""
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
        """A consumer says that it came so far: its coordinator may commit it from now on."""
        if offset >= 0:
            self.committed.setdefault(partition, Committed()).unknown.add(offset)

    def stop_was_taken(self, told: Mapping[int, int], since_s: float) -> None:
        """Who told these when it stopped, at that time, has been started again: they are committed since before that,
        and nobody may have been started from an earlier one since it stopped."""
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
        """A member has read until then that may have been let go before."""
        late_s = 0.0 if let_go_s is None else until_s - let_go_s
        if late_s >= within_s:
            self._wrong(f"{self.group}: {member} was let go, and has read on for {late_s:.3f} s")
