"""The `recommend` command: the limits that published results recommend, and what they would have done. Shell."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Any, Final

from audit_pipeline.commands.asked import PLACE, Asked, ask, show
from audit_pipeline.commands.commands import OK
from audit_pipeline.commands.commands_what_if import INCOMPLETE
from audit_pipeline.errors import BadUseError

COLUMNS: Final = (
    "cluster_id", "target", "rate", "rate_p50", "rate_p99", "rate_p999", "burst", "storms", "holds",
    "usual_delay_max_ms", "usual_rejected", "storm_admitted",
)  # fmt: skip
_HOURS_SHOWN: Final = 5

_LIMITS: Final = """
SELECT * REPLACE (from_date::VARCHAR AS from_date, to_date::VARCHAR AS to_date,
  strftime(burst_at, '%Y-%m-%dT%H:%M:%SZ') AS burst_at)
FROM recommended_limits WHERE {condition}
ORDER BY cluster_id, kind <> 'listener', kind, storm_connections DESC, target
"""
_TRIED: Final = """
SELECT cluster_id, kind, target, part, client_ip, client_id, connections, accepted, delayed, delay_p50_us, delay_p99_us,
  delay_max_us, rejected, "left", waiting, was_accepted, was_delayed, was_delay_max_us, was_rejected
FROM tried_limits WHERE {condition}
ORDER BY ALL
"""
_LACKING: Final = """
SELECT cluster_id, broker_id, strftime(date_trunc('hour', window_start), '%Y-%m-%dT%H') AS hour
FROM coverage SEMI JOIN recommended_limits AS limits
  ON coverage.cluster_id = limits.cluster_id AND event_date BETWEEN from_date AND to_date
WHERE missing + holes > 0 AND {condition}
GROUP BY ALL ORDER BY ALL
"""


def add_recommend(found: Any) -> None:
    """Add `recommend` to the commands of `found`, the result of argparse's add_subparsers."""
    recommend = found.add_parser(
        "recommend",
        help="show the limits on connections that results recommend; `sluicegate recommend` writes ConnectionQuotas",
    )
    recommend.add_argument("--results", required=True, help="as for `build`: a folder or URI with published results")
    recommend.add_argument("--cluster", help=f"cluster ID: {PLACE}")
    recommend.add_argument("-o", "--output", choices=("table", "json"), default="table")
    recommend.set_defaults(run=show_recommended)


def show_recommended(given: argparse.Namespace, _: Event, __: Callable[[], int]) -> int:
    document = recommended_limits(given.results, given.cluster)
    if given.output == "json":
        print(json.dumps(document))
    else:
        _show(document["limits"])
    for sentence in document["incomplete"]:
        print(f"the log is incomplete, so these hours have too few connections: {sentence}", file=sys.stderr)
    return INCOMPLETE if document["incomplete"] else OK


def recommended_limits(results: str, cluster: str | None) -> dict[str, Any]:
    """Return the limits with their trials as `parts` and `clients`, and sentences about what the log lacks.

    Raises BadUseError without results or recommendations, OSError if the store fails.
    """
    asked = Asked(cluster=cluster)
    condition = asked.condition()
    limits = [dict(row) for row in ask(results, _LIMITS.format(condition=condition), asked)]
    if not limits:
        which = "" if cluster is None else f" of cluster {cluster}"
        raise BadUseError(
            f"the results recommend no limit{which}, because they have no connection of a client: `build` them from an "
            "audit log with connections"
        )
    tried: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in ask(results, _TRIED.format(condition=condition), asked):
        tried.setdefault((row["cluster_id"], row["kind"], row["target"]), []).append(row)
    for limit in limits:
        clients = tried.get((limit["cluster_id"], limit["kind"], limit["target"]), [])
        limit["parts"] = {part: _sums(clients, part) for part in sorted({row["part"] for row in clients})}
        limit["clients"] = clients
    condition = asked.condition(cluster="coverage.cluster_id")
    return {
        "limits": limits,
        "incomplete": list(_incomplete(ask(results, _LACKING.format(condition=condition), asked))),
    }


def _sums(clients: Sequence[Mapping[str, Any]], part: str) -> dict[str, Any]:
    rows = [row for row in clients if row["part"] == part]
    sums = ("connections", "accepted", "delayed", "rejected", "left", "waiting", "was_accepted", "was_rejected")
    return {
        **{name: sum(row[name] for row in rows) for name in sums},
        "delay_max_us": max((row["delay_max_us"] or 0 for row in rows), default=0),
        "was_delay_max_us": max((row["was_delay_max_us"] or 0 for row in rows), default=0),
    }


def _incomplete(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    hours: dict[tuple[str, int], list[str]] = {}
    for row in rows:
        hours.setdefault((row["cluster_id"], row["broker_id"]), []).append(row["hour"])
    return [
        f"broker {broker} of cluster {cluster}, {', '.join(found[:_HOURS_SHOWN])}"
        + (f" and {len(found) - _HOURS_SHOWN} more" if len(found) > _HOURS_SHOWN else "")
        + " (UTC)"
        for (cluster, broker), found in hours.items()
    ]


def _show(limits: Sequence[Mapping[str, Any]]) -> None:
    show([_for_terminal(limit) for limit in limits], COLUMNS, "table")
    print()
    for limit in limits:
        print(f"{limit['kind']} {limit['target']}: {limit['why']}")


def _for_terminal(limit: Mapping[str, Any]) -> dict[str, Any]:
    nothing = {"delay_max_us": 0, "rejected": 0, "accepted": 0}
    usual, storm = (limit["parts"].get(part, nothing) for part in ("usual", "storm"))
    return {
        **limit,
        "target": f"{limit['kind']} {limit['target']}",
        "holds": limit["is_holding"],
        "usual_delay_max_ms": usual["delay_max_us"] / 1000,
        "usual_rejected": usual["rejected"],
        "storm_admitted": storm["accepted"],
    }
