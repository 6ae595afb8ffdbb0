"""An answer, and the sentences that it consists of. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from audit_pipeline.report.figures.report import Subjects
from kafka_bytes.printable import printable


class Name(str):
    """A part of a sentence that contains a user's name for something, such as a topic."""

    __slots__ = ()


class Tone(StrEnum):
    GOOD = "good"
    BAD = "bad"
    PLAIN = "plain"


Sentence = tuple[str, ...]
"""A sentence: parts that are joined without change."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A row of compared numbers: now, before, and the difference."""

    what: str
    now: str
    before: str
    change: str


@dataclass(frozen=True, slots=True)
class Answer:
    question: str
    verdict: Sentence
    tone: Tone
    sentences: tuple[Sentence, ...]
    compared: tuple[Compared, ...] = ()

    def as_text(self) -> str:
        """Return the answer as one line for a terminal."""
        return printable(f"{self.question} {''.join(self.verdict)}. {''.join(self.sentences[0])}")

    def as_json(self) -> dict[str, Any]:
        return {
            "question": self.question,
            "answer": "".join(self.verdict),
            "sentences": ["".join(sentence) for sentence in self.sentences],
            "compared": [{"what": row.what, "now": row.now, "before": row.before} for row in self.compared],
        }


def of_cluster(cluster_id: str, found: Subjects) -> Sentence:
    return (" of cluster ", Name(cluster_id)) if len(found.clusters) > 1 else ()
