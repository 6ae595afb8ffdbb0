"""What was said last of each subject, so that a log has a sentence when it is news and not at every look."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Subject = TypeVar("Subject", bound=Hashable)


@dataclass(slots=True)
class Said(Generic[Subject]):
    """One sentence for each subject; who has nothing more to say of one forgets it."""

    _said: dict[Subject, tuple[str, float]] = field(default_factory=dict)

    def note(self, subject: Subject, sentence: str, now_s: float) -> float | None:
        """None when it is news; otherwise for how long it has been so."""
        before, since_s = self._said.get(subject, ("", now_s))
        if before == sentence:
            return now_s - since_s
        self._said[subject] = (sentence, now_s)
        return None

    def forget(self, subject: Subject) -> None:
        self._said.pop(subject, None)
