"""What was said last of each subject, so that a log has a sentence when it is news and not at every look."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Subject = TypeVar("Subject", bound=Hashable)

SUBJECTS_MAX = 10_000


@dataclass(slots=True)
class Said(Generic[Subject]):
    """One sentence for each subject; who has nothing more to say of one forgets it. Of too many the one that was spoken
    of longest ago is forgotten."""

    _said: dict[Subject, tuple[str, float]] = field(default_factory=dict)

    def note(self, subject: Subject, sentence: str, now_s: float) -> float | None:
        """None when it is news; otherwise for how long it has been so."""
        before = self._said.pop(subject, None)
        is_news = before is None or before[0] != sentence
        since_s = now_s if before is None or is_news else before[1]
        self._said[subject] = (sentence, since_s)
        if len(self._said) > SUBJECTS_MAX:
            del self._said[next(iter(self._said))]
        return None if is_news else now_s - since_s

    def forget(self, subject: Subject) -> None:
        self._said.pop(subject, None)
