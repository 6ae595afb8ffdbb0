"""The results as lines for a terminal: a mark, the outcome as a word, the check, a sentence, and the remedy. Pure."""

from collections.abc import Sequence
from itertools import zip_longest

from rich.table import Table
from rich.text import Text

from kafka_bytes.printable import printable
from sluicegate_operator.cli.doctor.checks.results import CheckResult, Outcome

MARKS = {Outcome.OK: "+", Outcome.WARNING: "!", Outcome.PROBLEM: "x", Outcome.SKIPPED: "-"}
STYLES = {Outcome.OK: "green", Outcome.WARNING: "yellow", Outcome.PROBLEM: "red", Outcome.SKIPPED: "dim"}


def results_table(results: Sequence[CheckResult]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for _ in range(2):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for one, following in zip_longest(results, results[1:]):
        mark = Text(f"{MARKS[one.outcome]} {one.outcome}", style=STYLES[one.outcome])
        table.add_row(mark, one.check.name, Text(printable(one.sentence)))
        # Several results of a check in a row have one remedy.
        if one.remedy and (following is None or following.remedy != one.remedy):
            table.add_row("", "", Text(f"-> {printable(one.remedy)}"))
    return table
