"""Is the audit complete? Pure."""

from audit_pipeline.report.answers.answer import Answer, Sentence, Tone, of_cluster
from audit_pipeline.report.figures.completeness import FaultyBroker
from audit_pipeline.report.figures.report import Subjects
from audit_pipeline.report.words import about, count, number_of, percent, span

FAULTS_MAX = 3


def is_complete(found: Subjects) -> Answer:
    log, when = found.completeness, span(found.windows.shown)
    question = "Is the audit complete?"
    silent = _silent(found)
    if not log.days:
        unknown = (f"The results have no information about completeness, {when}.",)
        return Answer(question, ("Not known",), Tone.BAD, (unknown,))
    if log.is_complete:
        brokers = number_of(sum(cluster.brokers for cluster in found.clusters), "broker")
        sentence = (f"All {number_of(log.events, 'event')} of {brokers} are recorded, {when}.",)
        verdict, tone = ("Yes, for the brokers that reported", Tone.PLAIN) if silent else ("Yes", Tone.GOOD)
        return Answer(question, (verdict,), tone, (sentence, *silent))
    of_all = percent(log.missing / max(1, log.events + log.missing))
    sentence = (
        f"{number_of(log.missing, 'event')} of {about(log.events + log.missing)} are missing ({of_all}), {when}.",
    )
    if not log.missing:
        sentence = (f"No event is known to be missing, but files were set aside and are not in any result, {when}.",)
    faults = [_fault(fault, found) for fault in log.faulty[:FAULTS_MAX]]
    more = log.faulty_total - len(faults)
    rest: list[Sentence] = [(f"{number_of(more, 'more broker-day')}: see Completeness.",)] if more else []
    if log.unplaced_files:
        files = number_of(log.unplaced_files, "file was", "files were")
        rest.append((f"{files} set aside without a known day or broker: see Quarantine.",))
    return Answer(question, ("No",), Tone.BAD, (sentence, *faults, *rest, *silent))


def _silent(found: Subjects) -> list[Sentence]:
    log = found.completeness
    if not log.silent:
        return []
    each: list[str] = []
    for number, one in enumerate(log.silent[:FAULTS_MAX]):
        each += [
            ", " if number else "",
            f"broker {one.broker_id}",
            *of_cluster(one.cluster_id, found),
            f" on {one.day}",
        ]
    more = log.silent_total - FAULTS_MAX
    rest = f" and {count(more)} more" if more > 0 else ""
    return [("No events from ", *each, f"{rest}: the broker was down or removed, or its log is not landed.")]


def _fault(fault: FaultyBroker, found: Subjects) -> Sentence:
    what = []
    if fault.missing:
        what.append(f"{number_of(fault.missing, 'event')} in {number_of(fault.gaps, 'gap')} that the broker reported")
    if fault.holes:
        what.append(f"{number_of(fault.holes, 'event')} without any record (holes)")
    if fault.quarantined_files:
        what.append(f"{number_of(fault.quarantined_files, 'file')} set aside")
    elif fault.quarantined_rows:
        what.append(f"{number_of(fault.quarantined_rows, 'row')} set aside")
    return (f"{fault.day}, broker {fault.broker_id}", *of_cluster(fault.cluster_id, found), f": {', '.join(what)}.")
