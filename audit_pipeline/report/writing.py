"""Writes the page and its JSON from published results. Shell."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from audit_pipeline.errors import BadUseError
from audit_pipeline.reading.published import NUMBERS, PAGE
from audit_pipeline.report.answers.answer import Answer
from audit_pipeline.report.answers.opening import answers_of
from audit_pipeline.report.asking import PublishedTables
from audit_pipeline.report.figures.report import as_json, report_of
from audit_pipeline.report.naming import with_cluster_names
from audit_pipeline.report.page import page
from audit_pipeline.report.window import Wanted
from audit_pipeline.spool.targets import DRAFT_PREFIX, Target

EVERYTHING = Wanted()


class Rendered(NamedTuple):
    """A rendered report: the page, its JSON, and the answers with which both begin."""

    page: str
    numbers: str
    answers: tuple[Answer, ...]


def rendered(results: Target, wanted: Wanted = EVERYTHING) -> Rendered:
    """Render the wanted report. Raises BadUseError if the results do not have it, OSError if the store fails."""
    report = report_of(PublishedTables(results), wanted)
    shown = with_cluster_names(report, wanted.cluster_names)
    answers = answers_of(shown)
    return Rendered(page(shown, answers), as_json(report, [answer.as_json() for answer in answers]), answers)


def write_report(results: Target, out: Path, wanted: Wanted = EVERYTHING) -> Iterable[Answer]:
    """Write the page, and beside it the JSON under the same name with .json. Return the answers.

    Each file appears complete. Raises BadUseError for an unusable path or report, OSError if the store fails.
    """
    if out.suffix == ".json" or out.is_dir():
        raise BadUseError(f"{out} is not a file for a page: give a name such as report.html")
    if not out.parent.is_dir():
        raise BadUseError(f"folder {out.parent} for the page does not exist: create it, or give another --out")
    made = rendered(results, wanted)
    for path, text in ((out.with_suffix(".json"), made.numbers), (out, made.page)):
        draft = path.with_name(f"{DRAFT_PREFIX}{path.name}.{os.getpid()}")
        try:
            draft.write_text(text, encoding="utf-8")
            draft.replace(path)
        except OSError as error:
            raise BadUseError(f"{path} cannot be written: {error.strerror}; give another --out") from None
    return made.answers


def put_report(results: Target, wanted: Wanted = EVERYTHING) -> Iterable[Answer]:
    """Put the page and its JSON beside the results. Return the answers."""
    made = rendered(results, wanted)
    results.put(NUMBERS, made.numbers.encode())
    results.put(PAGE, made.page.encode())
    return made.answers
