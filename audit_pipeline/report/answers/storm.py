"""Who caused the last storm? Pure."""

from typing import Final

from audit_pipeline.report.answers.answer import Answer, Name, Sentence, Tone, of_cluster
from audit_pipeline.report.figures.report import Subjects
from audit_pipeline.report.figures.storms import Storm, Storms
from audit_pipeline.report.words import count, latency, length, moment_utc, number_of, percent, span, three_digits

_MOST: Final = 0.5
"""Minimum share of a storm for which a single source counts as its cause."""


def who_caused(storms: Storms, found: Subjects) -> Answer:
    question = "Who caused the last storm?"
    storm = storms.last
    if storm is None:
        return Answer(
            question, ("There was none",), Tone.GOOD, ((f"No connection storm from {span(storms.searched)}.",),)
        )
    return Answer(
        question,
        _source(storm),
        Tone.BAD if found.windows.shown.from_us <= storm.ended_us else Tone.PLAIN,
        (_storm(storm, found),),
    )


def _source(storm: Storm) -> Sentence:
    client = Name(storm.source_client_id or storm.source_principal)
    if storm.addresses == 1 or storm.source_share >= _MOST:
        return (client, " from ", Name(storm.source_ip))
    if storm.source_client_id is not None and storm.client_share >= _MOST:
        return (client, f" from {count(storm.addresses)} addresses")
    return (f"{count(storm.addresses)} addresses, most from ", Name(storm.source_ip))


def _storm(storm: Storm, found: Subjects) -> Sentence:
    client = ("client id ", Name(storm.source_client_id)) if storm.source_client_id is not None else ("no client id",)
    software = (", ", Name(storm.source_software)) if storm.source_software else ()
    return (
        f"On {moment_utc(storm.started_us, seconds=True)}, for {length(storm.ended_us - storm.started_us)}, address ",
        Name(storm.source_ip),
        " (",
        *client,
        *software,
        ", principal ",
        Name(storm.source_principal),
        f") made {percent(storm.source_share)} of the connections to listener ",
        Name(storm.listener),
        *of_cluster(storm.cluster_id, found),
        f", from {number_of(storm.addresses, 'address', 'addresses')} in total; {three_digits(storm.peak_per_s)} "
        "connections a second in total at the peak; ",
        *held_by(storm),
        f"; {for_others(storm)}.",
    )


def held_by(storm: Storm) -> Sentence:
    limit = storm.limit
    if limit is None:
        closed = f"; {count(storm.refused)} were closed before they were accepted" if storm.refused else ""
        return (f"no limit slowed it down{closed}",)
    counts = f"{count(storm.limited)} delayed, {count(storm.refused)} refused"
    of = "" if storm.limit_value is None else f" of {count(storm.limit_value)}{unit_of(storm)}"
    if storm.held_per_s is None:
        return (Name(limit), f"{of} held it back ({counts})")
    return (Name(limit), f"{of} admitted at most {three_digits(storm.held_per_s)} a second ({counts})")


_OBJECTIVE = "connection.quota.adaptive.p99.ms"
"""Key of a rate that adapts: its value is the objective of the waits of connected clients."""


def unit_of(storm: Storm) -> str:
    """Return the unit of the storm's limit: that of a rate, a number of connections, or milliseconds."""
    if (storm.limit_key or "").endswith(_OBJECTIVE):
        return " ms"
    return "/s" if "rate" in (storm.limit_key or "") else " connections"


def for_others(storm: Storm) -> str:
    during, before = storm.others_p99_during_us, storm.others_p99_before_us
    if during is None:
        return "other clients made no Produce or Fetch request during the storm, as far as requests are recorded"
    earlier = "no such request is recorded in the ten minutes before" if before is None else f"{latency(before)} before"
    return f"the p99 of other clients' Produce and Fetch was {latency(during)} during the storm, {earlier}"
