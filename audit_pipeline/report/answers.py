"""What a reader wants first, in sentences: is the audit complete, what changed, who caused the last storm. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from audit_pipeline.report.figures.changes import Changes, Comings, Named
from audit_pipeline.report.figures.completeness import FaultyBroker
from audit_pipeline.report.figures.report import Report, Subjects
from audit_pipeline.report.figures.storms import Storm, Storms
from audit_pipeline.report.markup import visible
from audit_pipeline.report.words import (
    NAMED_MAX,
    about,
    change,
    count,
    latency,
    length,
    moment_utc,
    number_of,
    percent,
    rate,
    span,
    three_digits,
)

FAULTS_MAX = 3
NOTABLE_MAX = 3
_TRAFFIC_MATTERS, _TIMES_MATTER = 0.2, 1.25
_ERRORS_MATTER, _ERRORS_TIMES = 0.0005, 1.5


class Name(str):
    """A part of a sentence that somebody else chose."""

    __slots__ = ()


class Tone(StrEnum):
    GOOD = "good"
    BAD = "bad"
    PLAIN = "plain"


Sentence = tuple[str, ...]
"""Parts to be put together as they are."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A line of numbers: now, before, and the difference."""

    what: str
    now: str
    before: str
    change: str


@dataclass(frozen=True, slots=True)
class Answer:
    question: str
    verdict: Sentence
    tone: Tone
    sentences: tuple[Sentence, ...]
    compared: tuple[Compared, ...] = ()

    def as_text(self) -> str:
        """A line for a terminal."""
        return visible(f"{self.question} {''.join(self.verdict)}. {''.join(self.sentences[0])}")

    def as_json(self) -> dict[str, Any]:
        return {
            "question": self.question,
            "answer": "".join(self.verdict),
            "sentences": ["".join(sentence) for sentence in self.sentences],
            "compared": [{"what": row.what, "now": row.now, "before": row.before} for row in self.compared],
        }


def answers_of(report: Report) -> tuple[Answer, ...]:
    if report.subjects is None:
        nothing = (("There is no event in these results: either nothing was recorded yet, or nothing was landed.",),)
        return (Answer("Is the audit complete?", ("It is empty",), Tone.PLAIN, nothing),)
    found = report.subjects
    return (_is_complete(found), _what_changed(found.changes, found), _who_caused(found.storms, found))


def _is_complete(found: Subjects) -> Answer:
    log, when = found.completeness, span(found.windows.shown)
    question = "Is the audit complete?"
    silent = _silent(found)
    if not log.days:
        unknown = (f"The results do not say what is complete, {when}.",)
        return Answer(question, ("Not known",), Tone.BAD, (unknown,))
    if log.is_complete:
        brokers = number_of(sum(cluster.brokers for cluster in found.clusters), "broker")
        said = (f"All {number_of(log.events, 'event')} of {brokers} are there, {when}.",)
        verdict, tone = ("Yes, as far as was heard", Tone.PLAIN) if silent else ("Yes", Tone.GOOD)
        return Answer(question, (verdict,), tone, (said, *silent))
    of_all = percent(log.missing / max(1, log.events + log.missing))
    said = (f"{number_of(log.missing, 'event')} of {about(log.events + log.missing)} are missing ({of_all}), {when}.",)
    if not log.missing:
        said = (f"No event is known to be missing, but files were set aside and are in no result, {when}.",)
    faults = [_fault(fault, found) for fault in log.faulty[:FAULTS_MAX]]
    more = log.faulty_total - len(faults)
    rest: list[Sentence] = [(f"{number_of(more, 'more broker-day')}: see Completeness.",)] if more else []
    if log.unplaced_files:
        files = number_of(log.unplaced_files, "file was", "files were")
        rest.append((f"{files} set aside of which nobody knows the day or the broker: see Quarantine.",))
    return Answer(question, ("No",), Tone.BAD, (said, *faults, *rest, *silent))


def _silent(found: Subjects) -> list[Sentence]:
    log = found.completeness
    if not log.silent:
        return []
    each: list[str] = []
    for number, one in enumerate(log.silent[:FAULTS_MAX]):
        each += [
            ", " if number else "",
            f"broker {one.broker_id}",
            *_of_cluster(one.cluster_id, found),
            f" on {one.day}",
        ]
    more = log.silent_total - FAULTS_MAX
    rest = f" and {count(more)} more" if more > 0 else ""
    return [("Nothing was heard of ", *each, f"{rest}: it was down or taken away, or its log is not landed.")]


def _fault(fault: FaultyBroker, found: Subjects) -> Sentence:
    what = []
    if fault.missing:
        what.append(f"{number_of(fault.missing, 'event')} in {number_of(fault.gaps, 'gap')} that it told of itself")
    if fault.holes:
        what.append(f"{number_of(fault.holes, 'event')} that nothing tells of")
    if fault.quarantined_files:
        what.append(f"{number_of(fault.quarantined_files, 'file')} set aside")
    elif fault.quarantined_rows:
        what.append(f"{number_of(fault.quarantined_rows, 'row')} set aside")
    return (f"{fault.day}, broker {fault.broker_id}", *_of_cluster(fault.cluster_id, found), f": {', '.join(what)}.")


def _what_changed(changes: Changes | None, found: Subjects) -> Answer:
    question = "What changed since the last window?"
    if changes is None:
        log = length(found.windows.covered.length_us)
        short = (f"The audit log is {log} long: too short to compare two stretches of one length.",)
        return Answer(question, ("Nothing to compare with yet",), Tone.PLAIN, (short,))
    now, before = changes.totals, changes.totals_before
    seconds, seconds_before = changes.last.length_us / 1e6, changes.before.length_us / 1e6
    rows = [
        Compared("Requests", about(now.requests), about(before.requests), change(now.requests, before.requests)),
        Compared(
            "In",
            rate(now.in_bytes / seconds),
            rate(before.in_bytes / seconds_before),
            change(now.in_bytes, before.in_bytes),
        ),
        Compared(
            "Out",
            rate(now.out_bytes / seconds),
            rate(before.out_bytes / seconds_before),
            change(now.out_bytes, before.out_bytes),
        ),
        Compared(
            "Errors", percent(now.error_share), percent(before.error_share), change(now.error_share, before.error_share)
        ),
    ]
    for p99 in changes.p99:
        both = p99.last_us is not None and p99.before_us is not None
        different = change(p99.last_us or 0, p99.before_us or 0) if both else ""
        rows.append(Compared(f"p99 of {p99.api}", latency(p99.last_us), latency(p99.before_us), different))
    stretch = f"{span(changes.last)}, against the same length before, {span(changes.before)}."
    said: list[Sentence] = [
        (stretch,),
        *(sentence for comings in changes.comings for sentence in _comings(comings, found)),
    ]
    notable = _notable(changes)
    verdict = (_capital(_some(notable[:NOTABLE_MAX], len(notable))),) if notable else ("Nothing much",)
    return Answer(question, verdict, Tone.PLAIN, tuple(said), tuple(rows))


def _notable(changes: Changes) -> list[str]:
    now, before = changes.totals, changes.totals_before
    found = []
    moved, moved_before = now.in_bytes + now.out_bytes, before.in_bytes + before.out_bytes
    if abs(moved - moved_before) > _TRAFFIC_MATTERS * max(moved_before, 1):
        found.append("more traffic" if moved > moved_before else "less traffic")
    if now.error_share - before.error_share > _ERRORS_MATTER and now.error_share > _ERRORS_TIMES * before.error_share:
        found.append("more errors")
    slower = [p99 for p99 in changes.p99 if (p99.last_us or 0) > _TIMES_MATTER * (p99.before_us or 1 << 62)]
    found += [f"slower {p99.api}" for p99 in slower]
    for comings in changes.comings:
        if comings.new_total:
            found.append(number_of(comings.new_total, f"new {comings.dimension}"))
        if comings.vanished_total:
            found.append(number_of(comings.vanished_total, f"{comings.dimension} gone", f"{comings.dimension}s gone"))
    return found


def _comings(comings: Comings, found: Subjects) -> Iterable[Sentence]:
    for what, names, total in (
        (f"New {comings.dimension}s: ", comings.new, comings.new_total),
        (f"{_capital(comings.dimension)}s that are not seen any more: ", comings.vanished, comings.vanished_total),
    ):
        if names:
            yield what, *_names(names, total, found), "."


def _who_caused(storms: Storms, found: Subjects) -> Answer:
    question = "Who caused the last storm?"
    storm = storms.last
    if storm is None:
        days = number_of(len(list(found.windows.covered.days())), "day")
        return Answer(
            question, ("There was none",), Tone.GOOD, ((f"No connection storm in the {days} that are kept.",),)
        )
    verdict = (Name(storm.source_client_id or storm.source_principal), " from ", Name(storm.source_ip))
    return Answer(
        question,
        verdict,
        Tone.BAD if found.windows.shown.from_us <= storm.ended_us else Tone.PLAIN,
        (_storm(storm, found),),
    )


def _storm(storm: Storm, found: Subjects) -> Sentence:
    client = ("client id ", Name(storm.source_client_id)) if storm.source_client_id is not None else ("no client id",)
    software = (", ", Name(storm.source_software)) if storm.source_software else ()
    everybody = storm.accepted + storm.limited + storm.refused
    return (
        f"On {moment_utc(storm.started_us, seconds=True)}, for {length(storm.ended_us - storm.started_us)}, address ",
        Name(storm.source_ip),
        " (",
        *client,
        *software,
        ", principal ",
        Name(storm.source_principal),
        f") made {percent(storm.source_attempts / max(1, everybody))} of the connections to listener ",
        Name(storm.listener),
        *_of_cluster(storm.cluster_id, found),
        f", {three_digits(storm.peak_per_s)} a second at the peak; ",
        *held_by(storm),
        f"; {for_others(storm)}.",
    )


def held_by(storm: Storm) -> Sentence:
    if storm.limit_met is None or storm.held_per_s is None:
        return ("no limit held it",)
    counts = f"{count(storm.limited)} held back, {count(storm.refused)} refused"
    return (Name(storm.limit_met), f" let in at most {three_digits(storm.held_per_s)} a second ({counts})")


def for_others(storm: Storm) -> str:
    before, during = storm.others_p99_before_us, storm.others_p99_during_us
    if before is None or during is None:
        return "how long others' requests took meanwhile is not known"
    return f"the p99 of everybody else's Produce and Fetch was {latency(during)} meanwhile, {latency(before)} before"


def _of_cluster(cluster_id: str, found: Subjects) -> Sentence:
    return (" of cluster ", Name(cluster_id)) if len(found.clusters) > 1 else ()


def _names(names: Sequence[Named], total: int, found: Subjects) -> Iterable[str]:
    times = Counter(each.name for each in names)
    for number, each in enumerate(names[:NAMED_MAX]):
        if number:
            yield ", "
        yield Name(each.name)
        if times[each.name] > 1:
            yield from _of_cluster(each.cluster_id, found)
    if total > NAMED_MAX:
        yield f" and {count(total - NAMED_MAX)} more"


def _some(texts: Sequence[str], total: int) -> str:
    more = total - len(texts)
    return ", ".join(texts) + (f" and {count(more)} more" if more else "")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
