"""Expectations of the demo's measurements. Pure: every missed expectation is a sentence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from demo.allowance import Allowance


@dataclass(frozen=True, slots=True)
class Held:
    """One limit in one storm: the number of accepted connections and the number that the limit allows."""

    phase: str
    target: str
    limit: float
    accepted: int
    attempts: int
    allowed: Allowance

    @property
    def is_held(self) -> bool:
        return self.accepted <= self.allowed.most


@dataclass(slots=True)
class Expectations:
    missed: list[str] = field(default_factory=list)

    def expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.missed.append(otherwise)

    def expect_held(self, held: Held) -> None:
        self.expect(
            held.is_held,
            f"{held.phase}: {held.target} admitted {held.accepted} connections; its limit of {held.limit:g}/s "
            f"allows at most {held.allowed.most} ({held.allowed.sentence})",
        )


def accepted_of(report: Mapping[str, Any], source: str | None = None) -> tuple[int, int]:
    """Return (accepted, attempts) from a storm's report, for one source or for all."""
    counts = report if source is None else report["sources"][source]
    return int(counts["accepted"]), int(counts["attempts"])
