"""Who owns which partition of a group, seen from outside, and what was committed for it: the rules of groups.

A member is sure of what it owns until its session may have ended: that long after it sent the last heartbeat that was
answered. Nobody else may own the same until then.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

NOTHING = -1


@dataclass(slots=True)
class Held:
    member: str
    term: str
    """The generation or the epoch of its member."""
    until_s: float


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
        self._now, self._wrong = now, wrong
        self._held: dict[int, Held] = {}
        self._last: dict[int, str] = {}

    def claim(self, member: str, term: str, partitions: Iterable[int], until_s: float) -> None:
        """A coordinator has just said, or said again, that the member has these."""
        now_s = self._now()
        for partition in partitions:
            held = self._held.get(partition)
            if held is not None and held.member != member and now_s < held.until_s:
                self._wrong(
                    f"{self.group}: partition {partition} is {member}'s in {term}, and for another "
                    f"{held.until_s - now_s:.3f} s {held.member}'s in {held.term}"
                )
            self.handovers += self._last.get(partition, member) != member
            self._last[partition] = member
            self._held[partition] = Held(member, term, until_s)

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
