"""The commands `usage`, `failures` and `cost`: published results as tables. Shell."""

import argparse
import sys
from collections.abc import Callable
from threading import Event
from typing import Any, Final

from audit_pipeline.commands.asked import Asked, add_asked, ask, asked_of, show
from audit_pipeline.commands.commands import OK
from audit_pipeline.errors import BadUseError
from audit_pipeline.results.tables import own_principals

_WINDOW_US: Final = 600_000_000
_DAY_US: Final = 86_400_000_000

_USAGE_BY: Final = {
    "day": "date_trunc('day', window_start)",
    "hour": "date_trunc('hour', window_start)",
    "window": "window_start",
    "cluster": "cluster_id",
    "client": "coalesce(client_id, '(none)')",
    "principal": "principal",
    "address": "address_group",
    "software": "nullif(concat_ws(' ', software_name, software_version), '')",
    "api": "api",
    "topic": "topic",
}
"""What the rows of `usage` can be added up by, as SQL."""

_USAGE: Final = """
SELECT {by}, sum(in_bytes)::BIGINT AS {moved_in}, sum(out_bytes)::BIGINT AS {moved_out}, {records}
  sum(requests)::BIGINT AS requests, sum(errors)::BIGINT AS errors
FROM usage WHERE topic IS {topics} AND NOT is_follower AND {condition}
GROUP BY ALL ORDER BY {times} {moved_in} + {moved_out} DESC, requests DESC, {names}
"""
_FAILURES: Final = """
SELECT cluster_id AS cluster, error, api, coalesce(client_id, '(none)') AS client, topic, is_expected,
  sum(failures)::BIGINT AS failures,  min(window_start) AS first_window, max(window_start) AS last_window
FROM failures WHERE {condition} AND {is_shown}
GROUP BY ALL ORDER BY is_expected, failures DESC, error, api, client, topic, cluster
"""
_COST: Final = """
SELECT cluster_id AS cluster, name AS {by},
  sum(if(resource = 'ingress', quantity, 0))::BIGINT AS ingress,
  sum(if(resource = 'egress', quantity, 0))::BIGINT AS egress,
  sum(if(resource = 'requests', quantity, 0))::BIGINT AS requests,
  sum(if(resource = 'storage', quantity, 0))::BIGINT AS byte_hours,
  sum(if(resource = 'partitions', quantity, 0))::BIGINT AS partition_hours,
  sum(amount ORDER BY amount) AS amount, currency
FROM cost WHERE dimension = '{dimension}' AND {condition} AND {is_shown}
GROUP BY cluster_id, name, currency
ORDER BY cluster, name IS NULL, amount DESC NULLS LAST, ingress + egress DESC, name
"""
_COST_BY: Final = {"principal": "principal", "client": "client_id", "topic": "topic"}


def add_results(found: Any) -> None:
    """Add `usage`, `failures` and `cost` to the commands of `found`, the result of argparse's add_subparsers."""
    usage = found.add_parser("usage", help="show which client moved how much on which topic")
    add_asked(usage, "client", "topic")
    usage.add_argument(
        "--by",
        type=_names,
        default=["client", "topic"],
        help=f"columns with commas between, of {', '.join(_USAGE_BY)}; default: client,topic. With topic a row has "
        "record batches, and counts partitions in requests; without, it has requests and responses",
    )
    usage.set_defaults(run=show_usage)

    failures = found.add_parser("failures", help="show which error which client got, from which API and topic")
    add_asked(failures, "client", "topic")
    failures.add_argument(
        "--expected", action="store_true", help="also show errors that are steps of the protocol, MEMBER_ID_REQUIRED"
    )
    failures.set_defaults(run=show_failures)

    cost = found.add_parser("cost", help="show what each client, principal or topic costs")
    add_asked(cost, "client", "topic")
    cost.add_argument("--by", choices=tuple(_COST_BY), default="client", help="whose cost to show; default: client")
    cost.set_defaults(run=show_cost)


def _names(text: str) -> list[str]:
    names = list(dict.fromkeys(text.split(",")))
    if unknown := [name for name in names if name not in _USAGE_BY]:
        raise argparse.ArgumentTypeError(f"{unknown[0]} is not one of {', '.join(_USAGE_BY)}")
    return names


def show_usage(given: argparse.Namespace, _: Event, __: Callable[[], int]) -> int:
    asked = asked_of(given)
    is_of_topics = "topic" in given.by or asked.topic is not None
    moved_in, moved_out = ("produced", "fetched") if is_of_topics else ("request_bytes", "response_bytes")
    times = [name for name in given.by if name in ("day", "hour", "window")]
    condition = asked.condition(time="window_start", step_us=_WINDOW_US, client="client_id", topic="topic")
    sql = _USAGE.format(
        by=", ".join(f'{_USAGE_BY[name]} AS "{name}"' for name in given.by),
        moved_in=moved_in,
        moved_out=moved_out,
        records="sum(records)::BIGINT AS records," if is_of_topics else "",
        topics="NOT NULL" if is_of_topics else "NULL",
        condition=condition,
        times="".join(f'"{name}", ' for name in times),
        names=", ".join(f'"{name}"' for name in given.by),
    )
    moved = (moved_in, moved_out, *(("records",) if is_of_topics else ()), "requests", "errors")
    show(ask(given.results, sql, asked), (*given.by, *moved), given.output)
    return OK


def _without_own(asked: Asked, principal: str) -> str:
    """Return the condition that a row is not of a principal that only own clients have, unless those are asked for."""
    if asked.is_with_own:
        return "true"
    used = asked.condition(time="window_start", step_us=_WINDOW_US)
    return f"NOT coalesce((cluster_id, {principal}) IN ({own_principals(used)}), false)"


def show_failures(given: argparse.Namespace, _: Event, __: Callable[[], int]) -> int:
    asked = asked_of(given)
    condition = asked.condition(time="window_start", step_us=_WINDOW_US, client="client_id", topic="topic")
    sql = _FAILURES.format(condition=condition, is_shown=_without_own(asked, "principal"))
    rows = ask(given.results, sql, asked)
    shown = rows if given.expected else [row for row in rows if not row["is_expected"]]
    columns = ("error", "api", "client", "topic", "failures", "first_window", "last_window", "cluster")
    show(shown, (*columns, "is_expected") if given.expected else columns, given.output)
    if left_out := sum(row["failures"] for row in rows) - sum(row["failures"] for row in shown):
        print(f"{left_out:,} errors are steps of the protocol and left out: --expected shows them", file=sys.stderr)
    return OK


def show_cost(given: argparse.Namespace, _: Event, __: Callable[[], int]) -> int:
    asked = asked_of(given)
    for name, wanted in (("client", asked.client), ("topic", asked.topic)):
        if wanted is not None and given.by != name:
            raise BadUseError(f"--{name} is for the cost of each {name}: add --by {name}")
    condition = asked.condition(
        time="event_date::TIMESTAMP",
        step_us=_DAY_US,
        client="name" if given.by == "client" else None,
        topic="name" if given.by == "topic" else None,
    )
    is_shown = _without_own(asked, "name") if given.by == "principal" else "true"
    sql = _COST.format(by=given.by, dimension=_COST_BY[given.by], condition=condition, is_shown=is_shown)
    resources = ("ingress", "egress", "requests", "byte_hours", "partition_hours", "amount", "currency")
    show(ask(given.results, sql, asked), (given.by, *resources, "cluster"), given.output)
    return OK
