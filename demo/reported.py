"""Expectations of the demo's report: it has to tell each storm with its source and its limit. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.allowance import allowance
from demo.checks import Expectations

LISTENER_KEY = "listener.name.{}.max.connection.creation.rate"


@dataclass(frozen=True, slots=True)
class Culprit:
    """The source of one storm, its accepted connections and its limit, as the report has them.

    `limit` is the key and the value of the limit that held the storm, None if no limit did. `admitted` is the most that
    it let in within a second.
    """

    listener: str
    client_ip: str
    client_id: str | None
    accepted: int
    limit: tuple[str, int] | None = None
    admitted: int | None = None


@dataclass(frozen=True, slots=True)
class Reported:
    """The report of the demo: path of its page, its answers as lines, and its storms."""

    page: Path
    is_complete: bool
    answers: tuple[str, ...]
    culprits: tuple[Culprit, ...]


@dataclass(frozen=True, slots=True)
class Caused:
    """The storms that the demo caused: listener, client and sources.

    `storms` has the limit of each in the order of time, as its key and value, None without one, and how many
    connections clients saw accepted. Brokers have accepted more: some clients had given up by then.
    """

    listener: str
    client_id: str
    sources: frozenset[str]
    storms: tuple[tuple[tuple[str, int] | None, int], ...]


def reported(page: Path, numbers: Mapping[str, Any]) -> Reported:
    """Read the answers and storms from the JSON beside the page."""
    complete, *_ = answers = numbers["answers"]
    storms = numbers["subjects"]["storms"]["storms"]
    return Reported(
        page,
        complete["answer"].startswith("Yes"),
        tuple(f"{each['question']} {each['answer']}." for each in answers),
        tuple(
            Culprit(
                storm["listener"],
                storm["source_ip"],
                storm["source_client_id"],
                storm["accepted"],
                None if storm["limit_key"] is None else (storm["limit_key"], storm["limit_value"]),
                storm["held_accepted"],
            )
            for storm in reversed(storms)
        ),
    )


def expect_named(found: Reported, caused: Caused, expectations: Expectations) -> None:
    """Expect that the report has each storm of the demo and no other, with its limit and all of its connections."""
    expectations.expect(found.is_complete, f"the report does not show the audit log as complete: {found.answers[0]}")
    expectations.expect(
        len(found.culprits) == len(caused.storms),
        f"the demo caused {len(caused.storms)} storms, but the report has {len(found.culprits)}",
    )
    for culprit in found.culprits:
        is_ours = culprit.client_id == caused.client_id and culprit.client_ip in caused.sources
        expectations.expect(
            is_ours and culprit.listener == caused.listener,
            f"the report names {culprit.client_id} from {culprit.client_ip} as the cause of a storm on "
            f"{culprit.listener}; it was {caused.client_id} from {', '.join(sorted(caused.sources))} on "
            f"{caused.listener}",
        )
    for culprit, (limit, accepted) in zip(found.culprits, caused.storms, strict=False):
        expectations.expect(culprit.limit == limit, f"the limit of a storm was {limit}; the report has {culprit.limit}")
        expectations.expect(
            culprit.accepted >= accepted,
            f"{accepted} connections of a storm were admitted, but the report has only {culprit.accepted} of them",
        )
        if limit is not None and limit[0] == LISTENER_KEY.format(caused.listener.lower()):
            rate = limit[1]
            most = allowance(rate, 1, acceptor_waits=True).most
            expectations.expect(
                culprit.admitted is not None and culprit.admitted <= most,
                f"a limit of {rate}/s admits at most {most} in a second, but the report has {culprit.admitted}",
            )
