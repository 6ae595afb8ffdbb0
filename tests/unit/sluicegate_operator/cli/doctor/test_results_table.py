"""The lines of the results: no outcome is shown by its colour alone."""

import io

from rich.console import Console

from sluicegate_operator.cli.doctor.checks.catalogue import CRDS
from sluicegate_operator.cli.doctor.checks.results import Outcome
from sluicegate_operator.cli.doctor.results_table import MARKS, results_table


def test_each_line_has_a_mark_a_word_and_the_remedy() -> None:
    out = io.StringIO()
    results = [
        CRDS.ok("all"),
        CRDS.warning("old", "upgrade"),
        CRDS.problem("none", "install"),
        CRDS.skipped("403\n\x1b"),
    ]
    Console(file=out, width=100).print(results_table(results))
    assert [line.rstrip() for line in out.getvalue().splitlines()] == [
        "+ OK       CRDs  all",
        "! WARNING  CRDs  old",
        "                 -> upgrade",
        "x PROBLEM  CRDs  none",
        "                 -> install",
        r"- SKIPPED  CRDs  403\n\x1b",
    ]


def test_a_remedy_that_several_results_share_is_one_line() -> None:
    out = io.StringIO()
    Console(file=out, width=100).print(results_table([CRDS.problem("a", "x"), CRDS.problem("b", "x"), CRDS.ok("c")]))
    assert [line.split()[-1] for line in out.getvalue().splitlines()] == ["a", "b", "x", "c"]


def test_each_outcome_has_its_own_mark() -> None:
    assert len(set(MARKS.values())) == len(MARKS) == len(Outcome)
