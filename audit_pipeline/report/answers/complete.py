"""Is the audit complete? Pure."""

from collections.abc import Iterable

from audit_pipeline.report.answers.answer import Answer, Sentence, Tone, of_cluster
from audit_pipeline.report.figures.completeness import Completeness, FaultyBroker
from audit_pipeline.report.figures.report import Subjects
from audit_pipeline.report.words import about, count, moment_utc, number_of, percent, span

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
        return Answer(question, (verdict,), tone, (sentence, *silent, *_repeated(log)))
    sentences: list[Sentence] = [*_missing(log, when), *_without_end(found)]
    faults = [_fault(fault, found) for fault in log.faulty[:FAULTS_MAX]]
    more = log.faulty_total - len(faults)
    rest: list[Sentence] = [(f"{number_of(more, 'more broker-day')}: see Completeness.",)] if more else []
    if log.unplaced_files:
        files = number_of(log.unplaced_files, "file was", "files were")
        rest.append((f"{files} set aside without a known day or broker: see Quarantine.",))
    return Answer(question, ("No",), Tone.BAD, (*sentences, *faults, *rest, *silent, *_repeated(log)))


def _missing(log: Completeness, when: str) -> Iterable[Sentence]:
    if log.missing:
        least = "At least " if any(broker.lacks_its_end for broker in log.brokers) else ""
        of_all = percent(log.missing / max(1, log.events + log.missing))
        events = f"{number_of(log.missing, 'event')} of {about(log.events + log.missing)}"
        yield (f"{least}{events} are missing ({of_all}), {when}.",)
    elif any(day.quarantined_files + day.quarantined_rows for day in log.days) or log.unplaced_files:
        yield (f"{_set_aside(log)} are in no result, {when}.",)


def _repeated(log: Completeness) -> Iterable[Sentence]:
    files = sum(reason.files for reason in log.reasons if reason.reason == "duplicate")
    if files:
        repeat = number_of(files, "file repeats", "files repeat")
        yield (f"{repeat} events of other files, and nothing is counted twice: see Quarantine.",)


def _without_end(found: Subjects) -> Iterable[Sentence]:
    brokers = [broker for broker in found.completeness.brokers if broker.lacks_its_end]
    for broker in brokers[:FAULTS_MAX]:
        name = (f"Broker {broker.broker_id}", *of_cluster(broker.cluster_id, found))
        if broker.open_since_us is None:
            yield (*name, " is registered, and no event of it has landed.")
        else:
            since = moment_utc(broker.open_since_us, seconds=True)
            yield (
                *name,
                f": open since {since}, when its last segment ended; it runs without events, or they are ",
                "not landed.",
            )
    if len(brokers) > FAULTS_MAX:
        yield (f"{number_of(len(brokers) - FAULTS_MAX, 'more broker')} without an end: see Completeness.",)


def _set_aside(log: Completeness) -> str:
    files = sum(day.quarantined_files for day in log.days) + log.unplaced_files
    rows = sum(day.quarantined_rows for day in log.days)
    counts = [(files, "whole file"), (rows, "row")]
    return f"Events that were set aside ({', '.join(number_of(number, what) for number, what in counts if number)})"


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
