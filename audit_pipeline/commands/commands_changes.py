"""`changes`: who changed what, from where, when, and with what outcome, from published results."""

import argparse
import sys
from collections.abc import Callable
from threading import Event
from typing import Any, Final

from audit_pipeline.commands.asked import Asked, add_asked, ask, asked_of, show
from audit_pipeline.commands.commands import OK

_ROWS: Final = 1000

COLUMNS: Final = (
    "time", "cluster", "client", "principal", "address", "api", "operation", "resource", "key", "before", "after",
    "outcome",
)  # fmt: skip

_SELECT: Final = """
SELECT ts AS time, cluster_id AS cluster, client_id AS client, principal, client_ip AS address, api, operation,
  CASE WHEN further IS NULL THEN concat_ws(' ', resource_type, resource_name)
    ELSE concat_ws(' ', further || ' more of', resource_name, '(' || resource_type || ')') END AS resource,
  key, old_value AS before, new_value AS after,
  if(coalesce(validate_only, false), outcome || ' (dry run)', outcome) AS outcome
FROM changes WHERE {condition} ORDER BY ts DESC, cluster_id, broker_id, boot_id, seq DESC LIMIT $limit
"""


def add_changes(found: Any) -> None:
    """Add the subcommand `changes` to a parser's commands; `found` is the result of argparse's add_subparsers."""
    parser = found.add_parser(
        "changes", help="show who changed topics, configurations, quotas, groups, ACLs and users, and with what outcome"
    )
    add_asked(parser, "client", "topic")
    parser.add_argument(
        "--failed", action="store_true", help="only changes that did not succeed, or whose outcome is not known"
    )
    parser.add_argument(
        "--limit", type=_count, default=_ROWS, help=f"show only the newest changes, at most so many; default: {_ROWS}"
    )
    parser.set_defaults(run=changes)


def changes(given: argparse.Namespace, _: Event, __: Callable[[], int]) -> int:
    asked = asked_of(given)
    sql = _SELECT.format(condition=condition_of(asked, is_failed=given.failed))
    rows = ask(given.results, sql, asked, limit=given.limit + 1)
    show(rows[: given.limit], COLUMNS, given.output)
    if len(rows) > given.limit:
        print(f"older changes are not shown: there are more than {given.limit} (--limit)", file=sys.stderr)
    return OK


def condition_of(asked: Asked, *, is_failed: bool) -> str:
    """Return the condition on rows of the result changes, as SQL."""
    condition = asked.condition(time="ts", client="client_id", topic="topic")
    return f"{condition} AND outcome <> 'succeeded'" if is_failed else condition


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return int(text)
