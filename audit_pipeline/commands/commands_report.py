"""The `report` command: the page about published results. Shell."""

import argparse
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any, Final

from audit_pipeline.commands.asked import add_window, window_of
from audit_pipeline.commands.commands import OK
from audit_pipeline.errors import BadUseError

DAYS_MAX: Final = 366
_DAYS: Final = 7


def add_report(found: Any) -> None:
    """Add `report` to the commands of `found`, the result of argparse's add_subparsers."""
    report = found.add_parser(
        "report", help="write an HTML page with the results of `build`, and its numbers as JSON next to it"
    )
    report.add_argument("--results", required=True, help="as for `build`: a folder or URI with published results")
    report.add_argument(
        "--out", type=Path, default=Path("report.html"), help="the file of the page; default: report.html"
    )
    report.add_argument(
        "--publish", action="store_true", help="write both files next to the results instead of to --out"
    )
    report.add_argument(
        "--days",
        type=_days,
        help=f"number of days (UTC) to show, up to --to or the latest; default: {_DAYS}",
    )
    add_window(report)
    report.add_argument(
        "--cluster-name",
        type=_cluster_name,
        action="append",
        default=[],
        metavar="ID=NAME",
        help="show this name, such as namespace/name, instead of a cluster ID; may be repeated. An AuditPipeline "
        "gives the names that it knows",
    )
    report.set_defaults(run=write)


def write(given: argparse.Namespace, _: Event, __: Callable[[], int]) -> int:
    # Only the commands that need DuckDB load it.
    from audit_pipeline.reading.published import PAGE  # noqa: PLC0415
    from audit_pipeline.report.window import Wanted  # noqa: PLC0415
    from audit_pipeline.report.writing import put_report, write_report  # noqa: PLC0415
    from audit_pipeline.spool.targets import open_target  # noqa: PLC0415

    from_us, to_us = window_of(given)
    if from_us is not None and given.days is not None:
        raise BadUseError("--days and --from both set the beginning of the report: give one of them")
    wanted = Wanted(given.days or _DAYS, from_us, to_us, given.cluster, dict(given.cluster_name))
    results = open_target(given.results)
    answers = put_report(results, wanted) if given.publish else write_report(results, given.out, wanted)
    for answer in answers:
        print(answer.as_text())
    if given.publish:
        print(f"{PAGE} is next to the results")
        return OK
    print(f"{given.out}, and its numbers in {given.out.with_suffix('.json')}")
    return OK


def _cluster_name(text: str) -> tuple[str, str]:
    cluster_id, _, name = text.partition("=")
    if not cluster_id or not name:
        raise argparse.ArgumentTypeError(f"{text} is not a cluster ID and a name, such as ID=retail/shop")
    return cluster_id, name


def _days(text: str) -> int:
    days = int(text) if text.isdecimal() else 0
    if not 1 <= days <= DAYS_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least 1 and at most {DAYS_MAX}")
    return days
