"""The `build` command: its arguments, checks and messages. Shell."""

import argparse
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from audit_pipeline.commands.commands import COMMAND_CONFIG, DAYS_MAX, FOUND_SOMETHING, OK, client_of, no_segments_in
from audit_pipeline.contract import SEGMENT_MS
from audit_pipeline.errors import BadUseError, first_line
from audit_pipeline.ingest.audit_topic import TopicPlace, is_topic
from audit_pipeline.reading.published import STATE_TABLE, Manifest, read_manifest, require_files
from audit_pipeline.results.settings import (
    Settings,
    StormLimits,
    read_mirrors,
    read_objectives,
    read_prices,
    read_storms,
)
from audit_pipeline.results.tables import result_tables
from audit_pipeline.spool.targets import open_target
from audit_pipeline.what_if.limits import limits_in

if TYPE_CHECKING:
    from audit_pipeline.sources.source import EventSource

log = logging.getLogger(__name__)

EACH_BUILD: Final = "each-build"
DAILY: Final = "daily"
_ERROR_CHARACTERS: Final = 1000
_INTERRUPTED: Final = "the build was interrupted and has published nothing: the previous results stay in force"
_SEGMENT_MS_MAX: Final = 86_400_000
_SUMMARY_BYTES_MAX: Final = 4096
"""The maximum size of a container's termination message in Kubernetes."""


def add_build(found: Any) -> None:
    """Add `build` to the commands of `found`, the result of argparse's add_subparsers."""
    build = found.add_parser("build", help="compute results from landed segments with Spark, and publish them")
    build.add_argument(
        "--source",
        action="append",
        required=True,
        help="the target of `land`, a folder or URI; may be repeated. Or kafka:HOST:PORT/TOPIC",
    )
    build.add_argument("--command-config", type=Path, help=COMMAND_CONFIG)
    build.add_argument("--results", required=True, help="the folder or URI in which results are published")
    build.add_argument("--from", dest="first", type=_day, help="first event-day to build (UTC)")
    build.add_argument("--to", dest="last", type=_day, help="last event-day to build (UTC)")
    build.add_argument("--prices", type=Path, help="JSON file: the prices of a GiB, a request and a partition")
    build.add_argument("--objectives", type=Path, help="JSON file: objectives (SLOs) of latency and errors")
    build.add_argument("--mirrors", type=Path, help="JSON file: which cluster mirrors which other cluster")
    build.add_argument("--storms", type=Path, help="JSON file: from which numbers on connections are a storm")
    build.add_argument(
        "--what-if",
        type=Path,
        help="JSON file: limits to try on the connections of each day; `sluicegate what-if --print-limits` writes it",
    )
    build.add_argument(
        "--recommend",
        choices=(EACH_BUILD, DAILY),
        default=EACH_BUILD,
        help=f"when limits are recommended: by each build, or about twice a day ({DAILY}), for an hourly schedule",
    )
    build.add_argument("--retention-days", type=int, help="drop results of days that are longer ago than this")
    build.add_argument(
        "--summary", type=Path, help="write a summary of the build to this file, as JSON, also if the build fails"
    )
    add_segment_ms(build)
    build.set_defaults(run=build_results)


def add_segment_ms(parser: argparse.ArgumentParser) -> None:
    """Add the option that sets the time after which a boot without an end counts as open."""
    parser.add_argument(
        "--segment-ms",
        type=_segment_ms,
        default=SEGMENT_MS,
        help="segment.ms of the brokers' audit logs: a boot that does not end is open if its last segment ended more "
        f"than twice as long ago; default: {SEGMENT_MS}",
    )


def _segment_ms(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= _SEGMENT_MS_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 to {_SEGMENT_MS_MAX}")
    return int(text)


def build_results(given: argparse.Namespace, _: Event, now_us: Callable[[], int]) -> int:
    began_s = monotonic()
    _require_place(given.summary)
    try:
        manifest, gone = _build(given, now_us())
    except BaseException as error:
        reason = _INTERRUPTED if isinstance(error, KeyboardInterrupt) else first_line(error)
        _write_summary(given.summary, {**_outcome(given, None, began_s), "error": reason[:_ERROR_CHARACTERS]})
        if reason == _INTERRUPTED:
            log.error("%s", reason)
        raise
    _write_summary(given.summary, {**_outcome(given, manifest, began_s), "error": gone})
    published, *found = described(manifest, monotonic() - began_s, given.first, given.last)
    log.info("%s", published)
    if gone:
        log.error("%s", gone)
        return FOUND_SOMETHING
    for line in found:
        log.info("%s", line)
    return OK


def _build(given: argparse.Namespace, now_us: int) -> tuple[Manifest, str | None]:
    """Return the published manifest, and a message if the source is empty now but was not before."""
    # Only the commands that need Spark load it.
    from audit_pipeline.jobs.build import BuildRequest, build, build_without_spark  # noqa: PLC0415
    from audit_pipeline.jobs.progress import Progress  # noqa: PLC0415
    from audit_pipeline.jobs.session import FEW_ROWS, spark_session  # noqa: PLC0415
    from audit_pipeline.sources.connector import connector_config  # noqa: PLC0415
    from audit_pipeline.sources.named import landed_source, named_source  # noqa: PLC0415

    settings = Settings(
        None if given.prices is None else read_prices(_text_of(given.prices, "--prices")),
        () if given.objectives is None else read_objectives(_text_of(given.objectives, "--objectives")),
        () if given.mirrors is None else read_mirrors(_text_of(given.mirrors, "--mirrors")),
        StormLimits() if given.storms is None else read_storms(_text_of(given.storms, "--storms")),
        None if given.what_if is None else _limits_text(_text_of(given.what_if, "--what-if")),
    )
    target = open_target(given.results)
    _require_sources(given.source)
    client = client_of(given.command_config, given.source[0])
    if given.first and given.last and given.first > given.last:
        raise BadUseError(f"--from {given.first} is after --to {given.last}: the range has no day")
    if given.retention_days is not None and not 1 <= given.retention_days <= DAYS_MAX:
        raise BadUseError(f"--retention-days must be from 1 to {DAYS_MAX}; 0 would drop all results")
    _require_beside(given.results, given.source)
    request = BuildRequest(
        given.results,
        settings,
        now_us,
        given.first,
        given.last,
        given.retention_days,
        given.segment_ms,
        given.recommend == DAILY,
    )
    former = read_manifest(target)
    if former is not None:
        require_files(
            target, former, [STATE_TABLE, *(name for name, table in result_tables().items() if table.is_by_day)]
        )
    known = former.summary if former else {}
    progress = Progress(monotonic, known.get("rows_per_s"), known.get("beside_s"))
    config = connector_config() if is_topic(given.source[0]) else None
    gone: list[str] = []
    state = former.state(target) if former else None
    landed = None if is_topic(given.source[0]) else landed_source(given.source, state, now_us)
    if landed is not None and former is not None and not landed.is_empty:
        again = build_without_spark(request, landed, former)
        if again is not None:
            return again, None
    is_short = landed is not None and landed.rows_of(landed.touched) < FEW_ROWS

    def source(remembered: bytes | None) -> "EventSource":
        # Another build may have published meanwhile.
        found: EventSource
        if landed is not None and remembered == state:
            found = landed
        else:
            found = named_source(spark, given.source, remembered, now_us, client)
        if problem := nothing_in(found, given.source, is_first=former is None):
            gone.append(problem)
        return found

    with spark_session("sluicegate audit build", config, is_short=is_short) as spark:
        manifest = build(spark, request, source, progress)
    return manifest, gone[0] if gone else None


def nothing_in(found: "EventSource", places: Sequence[str], *, is_first: bool) -> str | None:
    """Return a message if the source is empty now, None otherwise.

    Raises BadUseError if the source is empty at the first build: an empty log would count as complete.
    """
    if not found.is_empty:
        return None
    if is_first:
        raise BadUseError(_no_ends_in(places[0]) if is_topic(places[0]) else no_segments_in(*places))
    return (
        f"the source of the results is empty: {', '.join(places)} has no segments, perhaps because it is not "
        "mounted; the results stay unchanged"
    )


def _no_ends_in(topic: str) -> str:
    return (
        f"{topic} has no complete segment: `publish` writes the events of segments there, each segment followed by "
        "its end"
    )


def _require_sources(sources: Sequence[str]) -> None:
    for source in sources:
        if is_topic(source):
            TopicPlace.of(source)
            if len(sources) > 1:
                raise BadUseError("a topic cannot be combined with other sources: give one --source")
        elif "://" not in source and not Path(source).is_dir():
            raise BadUseError(f"folder {source} does not exist: give the target of `land`")


def _require_beside(results: str, sources: Sequence[str]) -> None:
    """Raise BadUseError if the results are inside a source, where they would count as damaged segments."""
    for source in sources:
        if _is_within(results, source):
            raise BadUseError(
                f"the results {results} are within the source {source}: give a folder or URI outside of it"
            )


def _is_within(place: str, other: str) -> bool:
    """Whether `place` is inside `other`. Both are folders, or URIs with or without options after a question mark."""
    places = [
        Path(each.partition("?")[0])
        if "://" in each and not each.startswith("file://")
        else Path(each.removeprefix("file://")).resolve()
        for each in (place, other)
    ]
    return places[0].is_relative_to(places[1])


def described(manifest: Manifest, took_s: float, first: date | None = None, last: date | None = None) -> list[str]:
    """Describe the published results for users. `first` and `last` are the requested days."""
    days, summary = sorted(manifest.days), manifest.summary
    span = days[0] if len(days) == 1 else f"{len(days)} days from {days[0]} to {days[-1]}" if days else "no day"
    lines = [f"published {span} as version {manifest.version} in {took_s:.0f} s"]
    found = {"missing": "events missing", "holes": "numbers without an event", "quarantinedFiles": "files set aside"}
    wrong = [f"{summary[key]:,} {text}" for key, text in found.items() if summary.get(key)]
    if not any((first is None or day >= str(first)) and (last is None or day <= str(last)) for day in days):
        lines.append(f"no event was found{_range(first, last)}")
    if wrong:
        return [*lines, f"the audit log is not complete: {', '.join(wrong)}"]
    return [*lines, "the audit log is complete"] if days else lines


def _range(first: date | None, last: date | None) -> str:
    return (f" from {first} on" if first else "") + (f" up to {last}" if last else "")


def _outcome(given: argparse.Namespace, manifest: Manifest | None, began_s: float) -> dict[str, Any]:
    days = sorted(manifest.days) if manifest else []
    summary: Mapping[str, Any] = manifest.summary if manifest else {}
    return {
        "window": {"from": days[0], "to": days[-1]} if days else None,
        "days": len(days),
        **{key: summary.get(key, 0) for key in ("events", "missing", "holes", "quarantinedFiles")},
        "rows": {name: count for name, count in summary.get("rows", {}).items() if name in result_tables()},
        "error": None,
        "version": manifest.version if manifest else None,
        "tookSeconds": round(monotonic() - began_s, 1),
    }


def _write_summary(path: Path | None, outcome: Mapping[str, Any]) -> None:
    """Write the summary. If it is too long only the error is cut: cutting anything else would break the JSON."""
    if path is None:
        return
    text, error = json.dumps(outcome), outcome["error"]
    while len(text) > _SUMMARY_BYTES_MAX and error:
        error = error[: len(error) // 2]
        text = json.dumps({**outcome, "error": error})
    path.write_text(text, encoding="ascii")


def _require_place(summary: Path | None) -> None:
    """Raise BadUseError if the summary cannot be written; otherwise the result of the build could not be reported."""
    if summary is not None and (summary.is_dir() or not summary.parent.is_dir()):
        raise BadUseError(f"{summary} cannot be written: give a file in an existing folder as --summary")


def _text_of(path: Path, option: str) -> str:
    """Read a text without the UTF-8 byte order mark that Windows editors write."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadUseError(f"{option} {path} cannot be read: {error.strerror}; give a file of JSON") from None
    except UnicodeDecodeError:
        raise BadUseError(f"{option} {path} is not UTF-8 text: save it as UTF-8") from None


def _limits_text(text: str) -> str:
    limits_in(text)
    return text


def _day(text: str) -> date:
    try:
        return datetime.strptime(text, "%Y-%m-%d").date()  # noqa: DTZ007 - a day has no zone
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a day such as 2026-11-20") from None
