"""`python -m audit_pipeline COMMAND`: the commands of the pipeline, from spools to answers; see `--help`."""

import argparse
import logging
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event
from typing import Any

from audit_pipeline.commands import (
    commands,
    commands_build,
    commands_changes,
    commands_follow,
    commands_package,
    commands_recommend,
    commands_report,
    commands_results,
    commands_storms,
    commands_tail,
    commands_topic,
    commands_what_if,
)
from audit_pipeline.contract import contract
from audit_pipeline.errors import BadUseError

_TARGET = "a folder, or a URI of an object store such as s3://bucket/path?region=..."
_FILE_BYTES = 128 * 1024 * 1024
_INTERRUPTED = 130
_SHORTEST_INTERVAL_S = 0.01
_TIMEOUT_MAX_S = 3600.0
_GO_ON = ("follow", "land", "keep", "publish", "tail")
"""Commands that finish their current work on SIGTERM, `publish` even while a topic is slow; all others end at once."""


def main(arguments: Sequence[str] | None, stopped: Event) -> int:
    """Run a command of the audit pipeline; return the exit code.

    1 if something is wrong with what was found, 2 for an invalid request and for a place that does not answer, 130 when
    interrupted.
    """
    given = parser().parse_args(arguments)
    try:
        code: int = given.run(given, stopped, lambda: time.time_ns() // 1000)
    except ModuleNotFoundError as error:
        print(f"{error.name} is not installed: pip install 'sluicegate[audit]'", file=sys.stderr)
        return commands.BAD_USE
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`): nothing may be written to it at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return commands.OK
    except (BadUseError, OSError) as error:
        print(error, file=sys.stderr)
        return commands.BAD_USE
    except KeyboardInterrupt:
        return _INTERRUPTED
    return code


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands, without side effects."""
    made = argparse.ArgumentParser(prog="sluicegate audit", description="Work with the audit log of brokers.")
    found = made.add_subparsers(required=True, metavar="command")

    _add_land(found)
    upkeep = found.add_parser("upkeep", help="compact past hours, and delete segments beyond the limits")
    upkeep.add_argument("target", help=_TARGET)
    _upkeep_options(upkeep)
    upkeep.set_defaults(run=commands.upkeep)

    check = found.add_parser(
        "check",
        help="search for holes, duplicates, gaps, corrupt files, boots without an end and registered brokers without "
        "a file; exit code 1 if there are any",
    )
    check.add_argument("target", metavar="DIR", help=_TARGET)
    check.add_argument(
        "--running",
        action="store_true",
        help="the cluster runs: the newest boot of a broker needs no end, however long ago its last segment ended",
    )
    commands_build.add_segment_ms(check)
    check.set_defaults(run=commands.check)

    _add_query(found)
    _add_publish(found)
    commands_report.add_report(found)
    commands_tail.add_tail(found)
    commands_build.add_build(found)
    commands_results.add_results(found)
    commands_changes.add_changes(found)
    commands_storms.add_storms(found)
    commands_recommend.add_recommend(found)
    commands_what_if.add_what_if(found)
    commands_follow.add_follow(found)
    commands_package.add_package(found)
    return made


def _add_land(found: Any) -> None:
    """Add `land`, and `keep`, which restarts it."""
    land = found.add_parser("land", help="turn the spools of a broker into Parquet segments")
    land.add_argument("spools", type=Path, help="the folder to which the broker writes its spools")
    land.add_argument("target", help=_TARGET)
    land.add_argument("--follow", action="store_true", help="continue until SIGTERM")
    interval = _within(float, _SHORTEST_INTERVAL_S)
    land.add_argument(
        "--interval-s", type=interval, default=2.0, help="with --follow: time between two checks for new data"
    )
    wait = _within(float, 0)
    land.add_argument(
        "--stop-s", type=wait, default=10.0, help="after SIGTERM: how long to wait for the broker to end its spool"
    )
    land.add_argument(
        "--upkeep", action="store_true", help="run `upkeep` once an hour; only one lander of a target may do that"
    )
    land.add_argument(
        "--ordinal",
        type=int,
        default=0,
        help="number of this lander; of several landers with the same target, only number 0 runs the upkeep",
    )
    _upkeep_options(land)
    land.set_defaults(run=commands.land)

    keep = found.add_parser("keep", help="run `land --follow` in a process that is restarted whenever it ends")
    keep.add_argument("--variables", type=Path, help="a folder whose files are environment variables of that process")
    keep.add_argument("land", nargs=argparse.REMAINDER, help="the arguments of `land`")
    keep.set_defaults(run=_keep)


def _add_query(found: Any) -> None:
    tables = ", ".join(contract().tables)
    query = found.add_parser("query", help=f"run an SQL query (DuckDB) on the tables {tables}, or on those of results")
    query.add_argument("sql", metavar="SQL", help="for example: SELECT api, count(*) FROM request GROUP BY ALL")
    query.add_argument("--target", help=f"{_TARGET}; or the --results of `build`")
    query.add_argument(
        "--spools",
        type=Path,
        action="append",
        default=[],
        help="a folder of spools, whose events are not landed yet; may be repeated",
    )
    query.add_argument(
        "-o",
        "--output",
        choices=("table", "json", "csv"),
        default="table",
        help=f"table truncates values to {commands.CELL_CHARS_MAX} characters; json (a line for each row) and csv "
        "do not",
    )
    query.add_argument("--json", action="store_true", help="same as --output json")
    query.set_defaults(run=commands.query)


def _add_publish(found: Any) -> None:
    publish = found.add_parser("publish", help="write the events of segments to a topic, each event once")
    publish.add_argument("source", help=_TARGET)
    publish.add_argument("topic", help="kafka:HOST:PORT/TOPIC; also set audit.topic of the audit log to it")
    publish.add_argument("--command-config", type=Path, help=commands.COMMAND_CONFIG)
    publish.add_argument("--follow", action="store_true", help="continue until SIGTERM")
    publish.add_argument(
        "--interval-s",
        type=_within(float, _SHORTEST_INTERVAL_S),
        default=2.0,
        help="with --follow: time between two checks for new data",
    )
    publish.add_argument(
        "--timeout-s",
        type=_within(float, 1, _TIMEOUT_MAX_S),
        default=30.0,
        help="fail (with --follow: log an error and continue) if the topic acknowledges nothing for this time; "
        "default: 30",
    )
    publish.set_defaults(run=commands_topic.publish)


def _keep(given: argparse.Namespace, stopped: Event, now_us: Callable[[], int]) -> int:
    # Arguments that `land` would refuse on each start are refused here, once.
    commands.require_upkeep_for_limits(parser().parse_args(["land", "--follow", *given.land]))
    return commands.keep(given, stopped, now_us)


def _upkeep_options(parser: argparse.ArgumentParser) -> None:
    size = _within(int, 1)
    parser.add_argument("--file-bytes", type=size, default=_FILE_BYTES, help="maximum size of compacted files")
    parser.add_argument(
        "--retention-days", type=_within(int, 1, commands.DAYS_MAX), help="delete segments that are older than this"
    )
    parser.add_argument(
        "--quota-bytes", type=size, help="delete the oldest segments if all together have more bytes than this"
    )


def _within(number: Callable[[str], float], least: float, most: float = math.inf) -> Callable[[str], float]:
    """Return a parser with limits: a mistyped limit must not delete everything, as a retention below 0 days would."""

    def parsed(text: str) -> float:
        try:
            found = number(text)
        except ValueError:
            found = math.nan
        if not least <= found <= most:
            kind = "a whole number" if number is int else "a number"
            upper = "" if most == math.inf else f" and at most {most:g}"
            raise argparse.ArgumentTypeError(f"{text} is not {kind} of at least {least:g}{upper}")
        return found

    return parsed


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    ended = Event()
    if sys.argv[1:2] and sys.argv[1] in _GO_ON:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ended.set())
    sys.exit(main(None, ended))
