"""The result of a check: its outcome, a sentence about what was found, and a remedy. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

NAMED_MAX = 5
"""Maximum number of names that a sentence lists; the others are counted."""


class Outcome(StrEnum):
    """The outcome of a check. Only PROBLEM changes the exit code."""

    OK = "OK"
    WARNING = "WARNING"
    PROBLEM = "PROBLEM"
    SKIPPED = "SKIPPED"


class Where(StrEnum):
    """The places for which a check exists."""

    ALWAYS = "always"
    MACHINE = "`sluicegate up`"
    KUBERNETES = "Kubernetes"
    CLUSTERS = "`sluicegate up`, Kubernetes"


@dataclass(frozen=True, slots=True)
class Unread:
    """The reason why something could not be read."""

    why: str


@dataclass(frozen=True, slots=True)
class Check:
    """One check. docs/reference/doctor.md is generated from these fields.

    `asks` says what is checked, `warns` and `fails` when the outcome is WARNING or PROBLEM, `remedy` what to do then.
    """

    name: str
    where: Where
    asks: str
    warns: str
    fails: str
    remedy: str

    def ok(self, sentence: str) -> "CheckResult":
        return CheckResult(self, Outcome.OK, sentence)

    def skipped(self, sentence: str) -> "CheckResult":
        return CheckResult(self, Outcome.SKIPPED, sentence)

    def warning(self, sentence: str, remedy: str = "") -> "CheckResult":
        return CheckResult(self, Outcome.WARNING, sentence, remedy or self.remedy)

    def problem(self, sentence: str, remedy: str = "") -> "CheckResult":
        return CheckResult(self, Outcome.PROBLEM, sentence, remedy or self.remedy)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check. `remedy` says what to do; it is empty if nothing has to be done."""

    check: Check
    outcome: Outcome
    sentence: str
    remedy: str = ""


def exit_code(results: Iterable[CheckResult]) -> int:
    return 1 if any(result.outcome is Outcome.PROBLEM for result in results) else 0


def summary(results: Sequence[CheckResult]) -> str:
    counts = {outcome: sum(result.outcome is outcome for result in results) for outcome in Outcome}
    words = {Outcome.OK: "ok", Outcome.WARNING: "warnings", Outcome.PROBLEM: "problems", Outcome.SKIPPED: "skipped"}
    return ", ".join(f"{count} {words[outcome]}" for outcome, count in counts.items())


def as_document(results: Sequence[CheckResult]) -> dict[str, Any]:
    """Return the results for `-o json`."""
    return {
        "exitCode": exit_code(results),
        "checks": [
            {"check": one.check.name, "outcome": one.outcome, "message": one.sentence, "remedy": one.remedy}
            for one in results
        ],
    }


def listed(names: Iterable[object]) -> str:
    """Return the names separated by commas; the first ones and a count if they are many."""
    found = [str(name) for name in names]
    more = len(found) - NAMED_MAX
    return ", ".join(found[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
