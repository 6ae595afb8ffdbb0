"""The actions of the commands, and their exit codes. Shell."""

import argparse
import csv
import json
import logging
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from threading import Event
from typing import Any, Final

from audit_pipeline.errors import BadUseError, StoppedError
from audit_pipeline.hours import HOUR_US
from audit_pipeline.ingest.audit_topic import is_topic
from audit_pipeline.ingest.client_config import ClientProperties, read_client_properties
from audit_pipeline.upkeep.keep import keep as keep_landing
from audit_pipeline.upkeep.upkeep import UPKEEP_S, HourlyUpkeep
from kafka_bytes.printable import printable

log = logging.getLogger(__name__)

OK, FOUND_SOMETHING, BAD_USE = 0, 1, 2
COMMAND_CONFIG: Final = "for a topic: file of Kafka's client properties for TLS and SASL, with certificates in PEM"

DAYS_MAX = 36_500
"""Maximum retention in days: counting further back would leave the range of dates."""

CELL_CHARS_MAX = 60
"""Maximum length of one value in a table for a terminal."""
_BROKER_POLL_S = 0.1
_WAIT_FOR_LANDER_S = 1.0
_DAY_US = 24 * HOUR_US


def land(given: argparse.Namespace, stopped: Event, now_us: Callable[[], int]) -> int:
    # Only the commands that need pyarrow load it.
    from audit_pipeline.spool.spool_folder import AlreadyLandingError, landing  # noqa: PLC0415
    from audit_pipeline.spool.targets import open_target  # noqa: PLC0415
    from audit_pipeline.upkeep.unfinished import clean_segments  # noqa: PLC0415

    require_upkeep_for_limits(given)
    if given.follow:
        given.spools.mkdir(parents=True, exist_ok=True)
    require_folders([given.spools])
    while True:
        try:
            with landing(given.spools):
                target = open_target(given.target)
                if not given.follow:
                    clean_segments(target)
                return _passes(given, stopped, now_us, target)
        except AlreadyLandingError as error:
            if not given.follow:
                print(error, file=sys.stderr)
                return FOUND_SOMETHING
            if stopped.wait(_WAIT_FOR_LANDER_S):
                return OK


def _passes(given: argparse.Namespace, stopped: Event, now_us: Callable[[], int], target: Any) -> int:
    from audit_pipeline.ingest.land import land as land_spools  # noqa: PLC0415

    with HourlyUpkeep(lambda is_to_stop: _upkeep(target, given, now_us(), is_to_stop), stopped) as upkeep:
        while True:
            # A stopped lander lands what is complete by then, including the spool of a broker that stops with it.
            is_last = not given.follow or stopped.is_set()
            if stopped.is_set():
                _wait_for_brokers(given.spools, given.stop_s)
            code = _one_pass(given.spools, target, land_spools, follows=given.follow)
            if given.upkeep and given.ordinal == 0:
                upkeep.begin(now_us())
            if is_last:
                return max(code, upkeep.finish())
            stopped.wait(given.interval_s)


def keep(given: argparse.Namespace, stopped: Event, _: Callable[[], int]) -> int:
    keep_landing(given.land, given.variables, stopped)
    return OK


def _wait_for_brokers(spools: Path, timeout_s: float) -> None:
    """Wait until no broker writes here any more; the next lander lands what is not complete by then."""
    from audit_pipeline.spool.spool_folder import is_written_to  # noqa: PLC0415

    deadline_s = time.monotonic() + timeout_s
    if is_written_to(spools):
        log.info("stopping: waiting up to %g s for the broker to end its spool", timeout_s)
    while is_written_to(spools):
        if time.monotonic() >= deadline_s:
            log.warning("the broker still writes: the next lander lands the spools that are not complete")
            return
        Event().wait(_BROKER_POLL_S)


def _one_pass(spools: Path, target: Any, land_spools: Callable[[Path, Any], Any], *, follows: bool) -> int:
    try:
        landed = land_spools(spools, target)
    except OSError as error:
        log.error("the target cannot be written; the spools are kept: %s", error)
        return FOUND_SOMETHING
    for problem in landed.problems:
        log.error("%s", problem)
    if landed.spools:
        log.info("landed %d events of %d spools as %d files", landed.events, landed.spools, landed.files)
    elif not follows and not landed.problems:
        log.info(
            "no spool in %s is complete: a spool is complete when it is a minute old (segment.ms) or its "
            "broker has stopped",
            spools,
        )
    return FOUND_SOMETHING if landed.problems else OK


def _upkeep(target: Any, given: argparse.Namespace, now_us: int, is_to_stop: Callable[[], bool]) -> int:
    from audit_pipeline.upkeep.compact import compact  # noqa: PLC0415
    from audit_pipeline.upkeep.retention import RetentionLimits, expire  # noqa: PLC0415
    from audit_pipeline.upkeep.unfinished import clean_segments  # noqa: PLC0415

    try:
        with target.upkeep() as is_alone:
            if not is_alone:
                log.info("another process compacts this target now")
                return FOUND_SOMETHING
            clean_segments(target, UPKEEP_S)
            merged = compact(target, now_us, given.file_bytes, is_to_stop)
            days = given.retention_days
            limits = RetentionLimits(None if days is None else now_us - days * _DAY_US, given.quota_bytes)
            deleted = expire(target, limits, is_to_stop)
    except StoppedError:
        log.info("upkeep was stopped: the next upkeep does the rest")
        return OK
    except OSError as error:
        log.error("the target could not be compacted: %s", error)
        return FOUND_SOMETHING
    log.info("compacted %d segments, deleted %d files beyond the limits", merged, deleted)
    return OK


def upkeep(given: argparse.Namespace, stopped: Event, now_us: Callable[[], int]) -> int:
    from audit_pipeline.spool.targets import open_target  # noqa: PLC0415

    require_folders(_folders_of(given.target))
    return _upkeep(open_target(given.target), given, now_us(), stopped.is_set)


def check(given: argparse.Namespace, _: Event, now_us: Callable[[], int]) -> int:
    from audit_pipeline.reading.published import has_results  # noqa: PLC0415
    from audit_pipeline.spool.targets import open_target  # noqa: PLC0415
    from audit_pipeline.upkeep.check import check as check_target  # noqa: PLC0415

    path = Path(given.target)
    if path.exists():
        require_folders([path])
    target = open_target(given.target)
    if has_results(target):
        return _check_results(target)
    settled_us = now_us() - 2 * given.segment_ms * 1000
    report = check_target(target, settled_us, is_running=given.running)
    if not report.files:
        raise BadUseError(no_segments_in(given.target))
    for finding in [*report.findings, *report.running]:
        print(f"{finding.kind}: {finding.where}: {finding.text}")
    print(
        f"{report.events} numbers of {report.boots} boots in {report.segments} segments ({report.files} files), "
        f"{report.missing} of them reported as missing; {len(report.findings)} findings"
    )
    return FOUND_SOMETHING if report.findings else OK


def _check_results(target: Any) -> int:
    """Compare the files of published results with the sums in their manifest."""
    from audit_pipeline.reading.published import damaged_files, read_manifest  # noqa: PLC0415
    from audit_pipeline.results.tables import result_tables  # noqa: PLC0415

    manifest = read_manifest(target)
    if manifest is None:
        raise BadUseError("the results were removed while they were checked")
    tables = [table for table in result_tables() if table in manifest.files]
    found = list(damaged_files(target, manifest, tables))
    for path, why in found:
        print(f"corrupt: {path}: {why}")
    files = sum(len(manifest.of(table)) for table in tables)
    print(f"results of version {manifest.version}: {len(tables)} tables ({files} files); {len(found)} findings")
    return FOUND_SOMETHING if found else OK


def query(given: argparse.Namespace, _: Event, __: Callable[[], int]) -> int:
    import duckdb  # noqa: PLC0415

    from audit_pipeline.contract import contract  # noqa: PLC0415
    from audit_pipeline.reading.published import has_results  # noqa: PLC0415
    from audit_pipeline.reading.query import Events  # noqa: PLC0415
    from audit_pipeline.report.asking import PublishedTables  # noqa: PLC0415
    from audit_pipeline.results.tables import result_tables  # noqa: PLC0415
    from audit_pipeline.spool.targets import open_target  # noqa: PLC0415

    if given.target is None and not given.spools:
        raise BadUseError("no events to query: give --target, --spools, or both")
    require_folders([*given.spools, *_folders_of(given.target)])
    target = None if given.target is None else open_target(given.target)
    is_of_results = target is not None and has_results(target)
    if is_of_results and given.spools:
        raise BadUseError(f"{given.target} has results, and spools have events: query one of them at a time")
    tables = list(result_tables()) if is_of_results else list(contract().tables)
    try:
        if target is not None and is_of_results:
            columns, rows = PublishedTables(target).rows(given.sql)
        else:
            columns, rows = Events(target, given.spools).ask(given.sql)
    except duckdb.Error as error:
        named = ", ".join(tables)
        raise BadUseError(f"{error}\nThe tables are {named}; `DESCRIBE {tables[0]}` shows the fields of one.") from None
    if given.json or given.output == "json":
        for row in rows:
            print(json.dumps(dict(zip(columns, row, strict=True)), default=_plain))
    elif given.output == "csv":
        print_csv(columns, rows)
    else:
        print_table(columns, rows)
    return OK


def cut(text: str) -> str:
    """Return at most CELL_CHARS_MAX characters of a text.

    A client ID alone may have 255, which would push all other columns off the screen.
    """
    return text if len(text) <= CELL_CHARS_MAX else text[: CELL_CHARS_MAX - 1] + "…"


def client_of(command_config: Path | None, source: str) -> ClientProperties:
    """Return the Kafka client properties for `source`: those of the file --command-config, or PLAINTEXT.

    Raises BadUseError if the file is invalid, or is given although `source` is not a topic.
    """
    if command_config is not None and not is_topic(source):
        raise BadUseError(f"--command-config is for topics, and {source} is not one: leave it out")
    return read_client_properties(command_config)


def no_segments_in(*places: str) -> str:
    return (
        f"no segments found in {', '.join(places)}: give the target of `land`; it lands a spool when the spool is "
        "a minute old (segment.ms) or its broker has stopped"
    )


def require_source(uri: str) -> None:
    """Raise BadUseError if a source folder does not exist; a store is checked when it is read."""
    require_folders(_folders_of(uri))


def require_upkeep_for_limits(given: argparse.Namespace) -> None:
    """Raise BadUseError if the arguments of `land` have limits that only `--upkeep` applies."""
    if not given.upkeep and (given.retention_days, given.quota_bytes) != (None, None):
        raise BadUseError("--retention-days and --quota-bytes have no effect without --upkeep: add it")


def _folders_of(target: str | None) -> list[Path]:
    """Return the folder of a target; none if it is a URI or not given."""
    return [Path(target)] if target and "://" not in target else []


def require_folders(paths: Iterable[Path]) -> None:
    for path in paths:
        if not path.is_dir():
            raise BadUseError(
                f"folder {path} does not exist: a broker writes its spools to the folder audit below its log.dirs, "
                "and `land` writes segments to its target"
            )


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print uncut values after a line of headings (RFC 4180); an empty field is NULL."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(value if isinstance(value, int | float | str) else _plain(value) for value in row)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table for a terminal; values of more than CELL_CHARS_MAX characters are cut and end with an ellipsis."""
    shown = [list(columns), *([cut(printable(_shown(value))) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _plain(value: Any) -> float | str:
    """Convert a value to JSON or CSV; sums of integers arrive as decimals."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return _shown(value)


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return value.isoformat() if isinstance(value, datetime) else str(value)
