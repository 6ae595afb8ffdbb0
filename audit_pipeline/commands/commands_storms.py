"""The `storms` command: the storms of published results as a table. Shell."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from threading import Event
from typing import Any, Final

from audit_pipeline.commands.asked import add_asked, ask, asked_of, show
from audit_pipeline.commands.commands import OK

COLUMNS: Final = (
    "started", "lasted_s", "cluster_id", "listener", "client", "address", "accepted", "delayed", "refused",
    "peak_per_s", "limit", "limit_value", "admitted_per_s", "others_requests", "others_p99_ms",
    "others_p99_before_ms",
)  # fmt: skip

_STORMS: Final = """
SELECT started, round((epoch_us(ended) - epoch_us(started)) / 1e6, 1) AS lasted_s, cluster_id, listener,
  coalesce(source_client_id, source_principal) AS client, source_ip AS address, accepted, limited AS delayed, refused,
  peak_attempts AS peak_per_s, coalesce(limit_quota, nullif(concat_ws(' of ', limit_key, limit_entity), '')) AS limit,
  limit_value, held_accepted AS admitted_per_s, others_requests_during AS others_requests,
  round(others_p99_during_us / 1000, 3) AS others_p99_ms, round(others_p99_before_us / 1000, 3) AS others_p99_before_ms
FROM storms WHERE {condition}
ORDER BY storms.started DESC, cluster_id, listener
"""


def add_storms(found: Any) -> None:
    """Add `storms` to the commands of `found`, the result of argparse's add_subparsers."""
    storms = found.add_parser("storms", help="show the connection storms in the results of `build`, the latest first")
    add_asked(storms)
    storms.add_argument("--client", help="client ID of the source: a name, or its beginning and a star, such as app-*")
    storms.set_defaults(run=storms_of_results)


def storms_of_results(given: argparse.Namespace, _: Event, __: Callable[[], int]) -> int:
    # A storm of one of the project's own clients is a storm, too.
    asked = replace(asked_of(given), is_with_own=True)
    condition = asked.condition(time="started", client="source_client_id")
    rows = ask(given.results, _STORMS.format(condition=condition), asked)
    if rows or given.output != "table":
        show(rows, COLUMNS, given.output)
    else:
        print("the results have no connection storm of this kind")
    return OK
