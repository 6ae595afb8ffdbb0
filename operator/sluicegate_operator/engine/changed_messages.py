"""Remember the last sentence about each subject, so that logs report changes instead of repetitions."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Subject = TypeVar("Subject", bound=Hashable)

SUBJECTS_MAX = 10_000


@dataclass(slots=True)
class ChangedMessages(Generic[Subject]):
    """The last sentence about each subject; callers forget subjects without a sentence.

    Beyond `SUBJECTS_MAX` subjects, the one that was noted longest ago is forgotten.
    """

    _said: dict[Subject, tuple[str, float]] = field(default_factory=dict)

    def note(self, subject: Subject, sentence: str, now_s: float) -> float | None:
        """Record a sentence of the log about a subject.

        Returns None for a new sentence, otherwise for how many seconds it has been the same.
        """
        before = self._said.pop(subject, None)
        is_news = before is None or before[0] != sentence
        since_s = now_s if before is None or is_news else before[1]
        self._said[subject] = (sentence, since_s)
        if len(self._said) > SUBJECTS_MAX:
            del self._said[next(iter(self._said))]
        return None if is_news else now_s - since_s

    def forget(self, subject: Subject) -> None:
        self._said.pop(subject, None)
