"""Expectations of the demo's report: it has to name the source of the storms. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.checks import Expectations

LEAST_SHARE = 0.9
"""Smallest share of a storm's connections in the report: ten seconds that the storm only touches may count as calm."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """The source of one storm, and all connections accepted during that storm, as the report has them."""

    listener: str
    client_ip: str
    client_id: str | None
    accepted: int


@dataclass(frozen=True, slots=True)
class Reported:
    """Path of the report, its answers as lines, and its storms."""

    page: Path
    is_complete: bool
    answers: tuple[str, ...]
    culprits: tuple[Culprit, ...]


@dataclass(frozen=True, slots=True)
class Caused:
    """Listener, client and sources of the storms that the demo caused, and a lower bound of accepted connections."""

    listener: str
    client_id: str
    sources: frozenset[str]
    accepted: int


def reported(page: Path, numbers: Mapping[str, Any]) -> Reported:
    """Read the answers and storms from the JSON beside the page."""
    complete, *_ = answers = numbers["answers"]
    storms = numbers["subjects"]["storms"]["storms"]
    return Reported(
        page,
        complete["answer"].startswith("Yes"),
        tuple(f"{each['question']} {each['answer']}." for each in answers),
        tuple(
            Culprit(storm["listener"], storm["source_ip"], storm["source_client_id"], storm["accepted"])
            for storm in storms
        ),
    )


def expect_named(found: Reported, caused: Caused, expectations: Expectations) -> None:
    """Expect that every storm in the report is the demo's, and that connections of its storms are not lost."""
    expectations.expect(found.is_complete, f"the report does not show the audit log as complete: {found.answers[0]}")
    expectations.expect(bool(found.culprits), "the report has no storm")
    for culprit in found.culprits:
        is_ours = culprit.client_id == caused.client_id and culprit.client_ip in caused.sources
        expectations.expect(
            is_ours and culprit.listener == caused.listener,
            f"the report names {culprit.client_id} from {culprit.client_ip} as the cause of a storm on "
            f"{culprit.listener}; it was {caused.client_id} from {', '.join(sorted(caused.sources))} on "
            f"{caused.listener}",
        )
    accepted = sum(culprit.accepted for culprit in found.culprits)
    expectations.expect(
        accepted >= LEAST_SHARE * caused.accepted,
        f"{caused.accepted} connections of the storms were admitted, but the report has only {accepted} of them",
    )
