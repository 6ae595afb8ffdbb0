"""What broke? Pure."""

from audit_pipeline.report.answers.answer import Answer, Name, Sentence, Tone, of_cluster
from audit_pipeline.report.figures.failures import Failure
from audit_pipeline.report.figures.report import Subjects
from audit_pipeline.report.words import moment, number_of

TOLD_MAX = 3


def what_broke(found: Subjects) -> Answer:
    question = "What broke?"
    failures = found.failures
    steps: Sentence = ()
    if failures.expected_total:
        what = number_of(failures.expected_total, "other error")
        steps = (
            (f"{what} are steps of the protocol.",) if failures.expected_total > 1 else (f"{what} is a step of it.",)
        )
    if not failures.broken:
        nothing: Sentence = ("No request of a client failed.",)
        return Answer(question, ("Nothing",), Tone.GOOD, (nothing, steps) if steps else (nothing,))
    verdict = (number_of(failures.broken_total, "failure"), f", most of them {failures.broken[0].error}")
    told = [_sentence(failure, found) for failure in failures.broken[:TOLD_MAX]]
    return Answer(question, verdict, Tone.BAD, tuple([*told, steps] if steps else told))


def _sentence(failure: Failure, found: Subjects) -> Sentence:
    topic: Sentence = () if failure.topic is None else (" for topic ", Name(failure.topic))
    times = (
        f"from {moment(failure.first_us)}" if failure.first_us != failure.last_us else f"at {moment(failure.first_us)}"
    )
    until = f" to {moment(failure.last_us)}" if failure.first_us != failure.last_us else ""
    return (
        f"{failure.error} in {number_of(failure.failures, 'answer')} to {failure.api} of ",
        Name(failure.client_id),
        *of_cluster(failure.cluster_id, found),
        *topic,
        f", {times}{until} UTC.",
    )
