"""The answers that a report opens with. Pure."""

from audit_pipeline.report.answers.answer import Answer, Tone
from audit_pipeline.report.answers.broken import what_broke
from audit_pipeline.report.answers.changed import what_changed
from audit_pipeline.report.answers.complete import is_complete
from audit_pipeline.report.answers.moved import who_moved
from audit_pipeline.report.answers.storm import who_caused
from audit_pipeline.report.figures.report import Report


def answers_of(report: Report) -> tuple[Answer, ...]:
    if report.subjects is None:
        nothing = (("These results have no event: either nothing was recorded yet, or nothing was landed.",),)
        return (Answer("Is the audit complete?", ("It is empty",), Tone.PLAIN, nothing),)
    found = report.subjects
    return (
        is_complete(found),
        what_changed(found.changes, found),
        who_caused(found.storms, found),
        who_moved(found),
        what_broke(found),
    )
