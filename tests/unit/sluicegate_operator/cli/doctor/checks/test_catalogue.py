"""The catalogue has exactly the outcomes that the code has for each check, so that its page is complete."""

import re
from pathlib import Path

from sluicegate_operator.cli.doctor import doctor
from sluicegate_operator.cli.doctor.checks import catalogue
from sluicegate_operator.cli.doctor.checks.catalogue import CHECKS
from sluicegate_operator.cli.doctor.checks.results import Check

SOURCES = [path.read_text(encoding="utf-8") for path in sorted(Path(doctor.__file__).parent.rglob("*.py"))]
CALLS = {match.groups() for text in SOURCES for match in re.finditer(r"\b([A-Z_]+)\.(warning|problem)\(", text)}
NAMES = {name: found for name, found in vars(catalogue).items() if isinstance(found, Check)}


def test_every_check_is_in_the_order_of_the_output() -> None:
    assert {check.name for check in NAMES.values()} == {check.name for check in CHECKS}


def test_the_code_has_the_outcomes_of_the_catalogue_and_no_others() -> None:
    declared = {
        (name, outcome)
        for name, check in NAMES.items()
        for outcome, case in (("warning", check.warns), ("problem", check.fails))
        if case != "never"
    }
    assert declared == CALLS
