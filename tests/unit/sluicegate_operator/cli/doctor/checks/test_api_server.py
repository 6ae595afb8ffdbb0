"""The version of the API server, and its clock beside this machine's."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from sluicegate_operator.cli.doctor.checks.api_server import (
    ServerSeen,
    clock_ahead,
    clock_result,
    server_time,
    version_result,
)
from sluicegate_operator.cli.doctor.checks.results import Outcome

NOW = datetime(2026, 11, 30, 12, 0, 0, 500_000, UTC)


def seen(ahead_s: float = 0.0, took_s: float = 0.2, version: str = "v1.34.4", date: str | None = None) -> ServerSeen:
    """An answer of an API server behind whose clock this machine's is ahead."""
    theirs = format_datetime(NOW.replace(microsecond=0), usegmt=True) if date is None else date
    asked = NOW + timedelta(seconds=ahead_s - took_s / 2)
    return ServerSeen({"gitVersion": version}, theirs, asked, asked + timedelta(seconds=took_s))


@pytest.mark.parametrize(
    ("version", "outcome"),
    [
        ("v1.34.4", Outcome.OK),
        ("v1.31.0+k3s1", Outcome.OK),
        ("v1.30.9", Outcome.PROBLEM),
        ("1.9.1", Outcome.PROBLEM),
        ("v2.0.0", Outcome.OK),
        ("", Outcome.PROBLEM),
    ],
)
def test_the_version_must_be_one_that_the_crds_work_with(version: str, outcome: Outcome) -> None:
    assert version_result(seen(version=version)).outcome is outcome


@pytest.mark.parametrize(
    ("ahead_s", "took_s", "outcome", "words"),
    [
        (0.0, 0.2, Outcome.OK, "the clocks differ by at most 0.6 s"),
        (2.4, 0.2, Outcome.OK, "the clocks differ by at most 3.0 s"),
        (3.0, 0.2, Outcome.WARNING, "the clock of this machine is 2 s ahead of the API server's"),
        (-10.0, 0.2, Outcome.WARNING, "the clock of this machine is 9 s behind the API server's"),
        (3.0, 4.0, Outcome.OK, "the clocks differ by at most 5.5 s"),
        (120.0, 0.2, Outcome.PROBLEM, "the clock of this machine is 119 s ahead of the API server's"),
    ],
)
def test_the_clocks_are_compared_within_the_error_of_the_answer(
    ahead_s: float, took_s: float, outcome: Outcome, words: str
) -> None:
    result = clock_result(seen(ahead_s, took_s))
    assert (result.outcome, result.sentence) == (outcome, words)


@pytest.mark.parametrize("date", ["", "yesterday"])
def test_without_a_date_nothing_is_compared(date: str) -> None:
    answer = seen(date=date)
    assert clock_ahead(answer) is None
    assert clock_result(answer).outcome is Outcome.SKIPPED
    assert server_time(answer) == answer.answered


def test_the_servers_time_is_that_of_its_own_clock() -> None:
    assert abs(server_time(seen(7200.0)) - NOW) < timedelta(seconds=1)
