"""Report changed limits to the user: what changed, how soon it was enforced, and when all limits are enforced again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sluicegate_operator.engine.context.snapshot import ClusterKey


@dataclass(frozen=True, slots=True)
class LimitCheck:
    """The result of a check whether a cluster's brokers enforce its limits.

    `complete`: the limits are enforced on all of its `brokers`. `lacking`: why not, if that is known.
    """

    complete: bool
    brokers: int
    at_s: float
    lacking: str = ""


class LimitChanges:
    """The changes of limits in files, until all brokers enforce them.

    Call `note` for changes of files, and `checked` after each check. Times are seconds of the event loop's clock.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._began_s: dict[ClusterKey, tuple[float, list[str]]] = {}
        self._complete: dict[ClusterKey, bool] = {}
        self._number = 0
        self.last: dict[str, Any] | None = None
        """The last change that was checked, for state.json."""

    def note(self, key: ClusterKey, phrases: list[str], began_s: float) -> None:
        for phrase in phrases:
            self._say(f"{key[1]}: {phrase}")
        if phrases:
            self._began_s[key] = (began_s, phrases)

    def doubt(self, key: ClusterKey) -> None:
        """Record that brokers have started or stopped: limits must be checked again."""
        if key in self._complete:
            self._complete[key] = False

    def checked(self, key: ClusterKey, look: LimitCheck) -> None:
        was_complete = self._complete.get(key)
        complete = look.complete and look.brokers > 0
        if look.brokers or was_complete is not None:
            self._complete[key] = complete
        began_s, phrases = self._began_s.pop(key, (None, []))
        counted = f"{look.brokers}/{look.brokers} brokers"
        if began_s is None:
            if complete and was_complete is False:
                self._say(f"{key[1]}: all limits are enforced on {counted} now")
            return
        took_s = look.at_s - began_s if complete else None
        if took_s is not None:
            self._say(f"{key[1]}: enforced on {counted} {took_s:.3f} s after the change, without restarts")
        elif look.lacking:
            self._say(f"{key[1]}: not enforced everywhere yet: {look.lacking}")
        self._number += 1
        self.last = {"number": self._number, "cluster": key[1], "limits": phrases, "enforced_after_s": took_s}

    def forget(self, key: ClusterKey) -> None:
        self._began_s.pop(key, None)
        self._complete.pop(key, None)
