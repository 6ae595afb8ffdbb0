"""`what-if`: the connections of a log under other limits, which `sluicegate what-if` passes on. Shell."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from threading import Event
from typing import TYPE_CHECKING, Any, Final

from audit_pipeline.commands.asked import add_times, show, window_of
from audit_pipeline.commands.commands import OK, require_source
from audit_pipeline.errors import BadUseError
from audit_pipeline.what_if.limits import LimitsToTry, limits_in
from audit_pipeline.what_if.summary import Summary, unknown

if TYPE_CHECKING:
    from audit_pipeline.reading.tried_limits import Agreement

INCOMPLETE: Final = 3
"""Exit code if the log lacks events of the requested time."""
DIFFERENT: Final = 4
"""Exit code if a decision of the replay under the limits in force is not that of the log."""
_SHOWN: Final = (
    "quota",
    "client_ip",
    "client_id",
    "connections",
    "accepted",
    "delayed",
    "delay_p50_ms",
    "delay_p99_ms",
    "delay_max_ms",
    "rejected",
    "was_accepted",
    "was_delayed",
    "was_delay_max_ms",
    "was_rejected",
)
"""Columns of the table for a terminal; JSON has all."""
_ROWS_MAX: Final = 50


def add_what_if(found: Any) -> None:
    """Add `what-if` to the commands of `found`, the result of argparse's add_subparsers."""
    what_if = found.add_parser(
        "what-if",
        help="replay the connections of a log under other limits; `sluicegate what-if` calls it with ConnectionQuotas",
    )
    what_if.add_argument("--audit", required=True, help="folder or URI with the segments of the log")
    chosen = what_if.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--limits", help="file with the limits as JSON; - reads standard input")
    chosen.add_argument(
        "--in-force",
        action="store_true",
        help="replay the log under the limits that it records, and compare each decision with that of the log",
    )
    add_times(what_if)
    what_if.add_argument("-o", "--output", choices=("table", "json"), default="table")
    what_if.set_defaults(run=what_if_of_log)


def what_if_of_log(given: argparse.Namespace, _: Event, __: Callable[[], int]) -> int:
    # Only the commands that need pyarrow load it.
    from audit_pipeline.reading.connection_log import ConnectionLog  # noqa: PLC0415
    from audit_pipeline.reading.published import has_results  # noqa: PLC0415
    from audit_pipeline.reading.tried_limits import replay_in_force, try_limits  # noqa: PLC0415
    from audit_pipeline.spool.targets import open_target  # noqa: PLC0415

    from_us, to_us = window_of(given)
    limits = LimitsToTry() if given.in_force else _limits(given.limits)
    require_source(given.audit)
    target = open_target(given.audit)
    if has_results(target):
        raise BadUseError(
            f"{given.audit} has results of `build`, which have no single connections: give --audit the segments from "
            "which they were built"
        )
    log = ConnectionLog(target, from_us, to_us)
    agreement = None
    if given.in_force:
        summary, agreement, notes = replay_in_force(log)
    else:
        summary, notes = try_limits(log, limits)
        notes = [*limits.notes, *notes, *unknown(summary)]
    missing = [
        f"broker {part.broker_id} of cluster {part.cluster_id}, {', '.join(part.hours)} (UTC): {part.why}"
        for part in log.missing()
    ]
    if given.output == "json":
        document: dict[str, Any] = {
            "connections": summary.connections,
            "limits": summary.by_limit(limits),
            "clients": summary.by_client(limits),
            "notes": notes,
            "incomplete": missing,
        }
        if agreement is not None:
            document["agreement"] = {
                "compared": agreement.compared,
                "different": agreement.different,
                "changes": agreement.changes,
                "moves": agreement.moves,
                "differences": [each.row for each in agreement.first],
            }
        print(json.dumps(document))
    else:
        _show(summary, limits, notes)
        if agreement is not None:
            _show_agreement(agreement)
    for part in missing:
        print(f"the log is incomplete, so these hours have too few connections: {part}", file=sys.stderr)
    if missing:
        return INCOMPLETE
    return DIFFERENT if agreement is not None and agreement.different else OK


def _show_agreement(agreement: "Agreement") -> None:
    equal = agreement.compared - agreement.different
    print(
        f"{equal:,} of {agreement.compared:,} decisions are those of the log, at their times; limits changed "
        f"{agreement.changes:,} times, {agreement.moves:,} of them by the brokers themselves"
    )
    if agreement.different:
        print()
        show([each.row for each in agreement.first[:_ROWS_MAX]], tuple(agreement.first[0].row), "table")
        if agreement.different > _ROWS_MAX:
            print(f"{agreement.different - _ROWS_MAX:,} more: -o json has the first thousand")


def _limits(name: str) -> LimitsToTry:
    try:
        if name == "-":
            text = sys.stdin.read()
        else:
            with open(name, encoding="utf-8") as file:
                text = file.read()
    except (OSError, ValueError) as error:
        raise BadUseError(f"--limits {name} cannot be read: {error}") from None
    return limits_in(text)


def _show(summary: Summary, limits: LimitsToTry, notes: Sequence[str]) -> None:
    print(f"{summary.connections:,} connections; the columns was_... say what really happened to the same connections")
    print()
    rows = summary.by_limit(limits)
    columns = tuple(name for name in _SHOWN if name not in ("client_ip", "client_id"))
    show(_named(rows), columns, "table")
    affected = [row for row in summary.by_client(limits) if row["limit"] is not None]
    if affected:
        print()
        show(_named(affected[:_ROWS_MAX]), _SHOWN, "table")
        if len(affected) > _ROWS_MAX:
            print(f"{len(affected) - _ROWS_MAX:,} more clients: -o json has all")
    effective = {row["quota"] for row in rows}
    for quota in sorted(set(limits.quotas) - effective):
        print(f"{quota} delays and rejects no connection")
    for note in notes:
        print(f"note: {note}")


def _named(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows for a terminal: a limit without a ConnectionQuota is named by its key."""
    return [{**row, "quota": row["quota"] or row["limit"] or "(no limit met)"} for row in rows]
