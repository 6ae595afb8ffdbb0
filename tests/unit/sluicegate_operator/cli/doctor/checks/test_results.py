"""Outcomes, exit codes and the document of `-o json`."""

import pytest

from sluicegate_operator.cli.doctor.checks.catalogue import CHECKS, CRDS
from sluicegate_operator.cli.doctor.checks.results import CheckResult, Outcome, as_document, exit_code, listed, summary


@pytest.mark.parametrize(
    ("results", "code"),
    [([], 0), ([CRDS.ok("a"), CRDS.warning("b"), CRDS.skipped("c")], 0), ([CRDS.ok("a"), CRDS.problem("b")], 1)],
)
def test_only_a_problem_changes_the_exit_code(results: list[CheckResult], code: int) -> None:
    assert exit_code(results) == code


def test_a_bad_result_has_the_remedy_of_its_check_or_its_own() -> None:
    assert CRDS.problem("bad").remedy == CRDS.remedy
    assert CRDS.warning("bad", "do this").remedy == "do this"
    assert CRDS.ok("good").remedy == CRDS.skipped("unknown").remedy == ""


def test_the_document_has_every_result() -> None:
    document = as_document([CRDS.problem("bad", "do this"), CRDS.ok("good")])
    assert document == {
        "exitCode": 1,
        "checks": [
            {"check": "CRDs", "outcome": "PROBLEM", "message": "bad", "remedy": "do this"},
            {"check": "CRDs", "outcome": "OK", "message": "good", "remedy": ""},
        ],
    }
    assert summary([CRDS.ok("good"), CRDS.problem("bad")]) == "1 ok, 0 warnings, 1 problems, 0 skipped"
    assert list(Outcome) == ["OK", "WARNING", "PROBLEM", "SKIPPED"]


def test_many_names_are_counted() -> None:
    assert listed(range(3)) == "0, 1, 2"
    assert listed(range(7)) == "0, 1, 2, 3, 4 and 2 more"


def test_each_check_has_its_own_name_and_a_remedy() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert all(check.asks and check.remedy and check.warns and check.fails for check in CHECKS)
    assert not [check.name for check in CHECKS if check.warns == check.fails == "never"]
