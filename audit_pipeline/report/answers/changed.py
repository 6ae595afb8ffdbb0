"""What changed since the last window? Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence

from audit_pipeline.report.answers.answer import Answer, Compared, Name, Sentence, Tone, of_cluster
from audit_pipeline.report.figures.changes import Changes, Comings, Named
from audit_pipeline.report.figures.made_changes import MadeChange, MadeChanges
from audit_pipeline.report.figures.report import Subjects
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
)

NOTABLE_MAX = 3
_TRAFFIC_MATTERS, _TIMES_MATTER = 0.2, 1.25
_ERRORS_MATTER, _ERRORS_TIMES = 0.0005, 1.5


def what_changed(changes: Changes | None, found: Subjects) -> Answer:
    question = "What changed since the last window?"
    if changes is None:
        log = length(found.windows.covered.length_us)
        short = (f"The audit log covers {log}: too short to compare two periods of equal length.",)
        made = _made(found.made_changes, found)
        return Answer(question, ("No earlier period to compare with yet",), Tone.PLAIN, (short, *made))
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
    stretch = f"{span(changes.last)}, compared with the period of equal length before, {span(changes.before)}."
    sentences: list[Sentence] = [
        (stretch,),
        *_made(found.made_changes, found),
        *(sentence for comings in changes.comings for sentence in _comings(comings, found)),
    ]
    notable = _notable(changes)
    verdict = (_capital(_some(notable[:NOTABLE_MAX], len(notable))),) if notable else ("Nothing much",)
    return Answer(question, verdict, Tone.PLAIN, tuple(sentences), tuple(rows))


def _made(made: MadeChanges, found: Subjects) -> Iterable[Sentence]:
    """Yield sentences about the changes that clients have made in the shown time, and the newest change."""
    if not made.rows:
        return
    failed = f", {count(made.failed)} failed" if made.failed else ""
    asked = f"Clients asked for {number_of(made.changes, 'change')}: {count(made.succeeded)} succeeded{failed}. "
    newest = next((row for row in made.rows if row.further is None), made.rows[0])
    yield (asked, f"The newest one, at {moment_utc(newest.at_us)}: ", *_change(newest, found), ".")


def _change(change: MadeChange, found: Subjects) -> Sentence:
    of = (" of ",) if change.key is not None else ()
    values = [
        part
        for word, value in ((" from ", change.old_value), (" to ", change.new_value))
        if value is not None
        for part in (word, Name(value))
    ]
    return (
        Name(change.client_id or change.principal),
        " from ",
        Name(change.client_ip),
        f" asked to {change.operation} ",
        *((Name(change.key),) if change.key is not None else ()),
        *of,
        change.resource_type,
        *((" ", Name(change.resource_name)) if change.resource_name is not None else ()),
        *of_cluster(change.cluster_id, found),
        *values,
        f" ({change.outcome})",
    )


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
        (f"{_capital(comings.dimension)}s that have disappeared: ", comings.vanished, comings.vanished_total),
    ):
        if names:
            yield what, *_names(names, total, found), "."


def _names(names: Sequence[Named], total: int, found: Subjects) -> Iterable[str]:
    times = Counter(each.name for each in names)
    for number, each in enumerate(names[:NAMED_MAX]):
        if number:
            yield ", "
        yield Name(each.name)
        if times[each.name] > 1:
            yield from of_cluster(each.cluster_id, found)
    if total > NAMED_MAX:
        yield f" and {count(total - NAMED_MAX)} more"


def _some(texts: Sequence[str], total: int) -> str:
    more = total - len(texts)
    return ", ".join(texts) + (f" and {count(more)} more" if more else "")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
