"""The `follow` command: its arguments, checks and messages. Shell."""

import argparse
import logging
import math
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

from audit_pipeline.commands.commands import COMMAND_CONFIG, OK, client_of
from audit_pipeline.errors import BadUseError
from audit_pipeline.ingest.audit_topic import TopicPlace, is_topic
from audit_pipeline.reading.live import LIVE, LiveManifest
from audit_pipeline.spool.targets import open_target

log = logging.getLogger(__name__)

_SHORTEST_INTERVAL_S = 0.1


def add_follow(found: Any) -> None:
    """Add `follow` to the commands of `found`, the result of argparse's add_subparsers."""
    follow = found.add_parser("follow", help="add up new events with Spark's streaming, before the next `build`")
    follow.add_argument("--source", required=True, help="the target of `land`, a folder, or kafka:HOST:PORT/TOPIC")
    follow.add_argument("--command-config", type=Path, help=COMMAND_CONFIG)
    follow.add_argument("--results", required=True, help="the folder in which results are published")
    follow.add_argument(
        "--continuous",
        action="store_true",
        help="continue until SIGTERM; by default, process the existing events and stop",
    )
    follow.add_argument("--interval-s", type=float, default=30.0, help="with --continuous: time between two batches")
    follow.set_defaults(run=follow_events)


def follow_events(given: argparse.Namespace, stopped: Event, now_us: Callable[[], int]) -> int:
    # Only the commands that need Spark load it.
    from audit_pipeline.jobs.follow import FollowRequest, follow  # noqa: PLC0415
    from audit_pipeline.jobs.session import spark_session  # noqa: PLC0415
    from audit_pipeline.sources.connector import connector_config  # noqa: PLC0415

    client = client_of(given.command_config, given.source)
    if is_topic(given.source):
        TopicPlace.of(given.source)
    elif not Path(given.source).is_dir():
        raise BadUseError(
            f"folder {given.source} does not exist: `follow` reads a folder that is the target of `land`, or a "
            "topic; for an object store use `build`"
        )
    if "://" in given.results or not _SHORTEST_INTERVAL_S <= given.interval_s < math.inf:
        raise BadUseError(f"--results must be a folder, and --interval-s at least {_SHORTEST_INTERVAL_S}")
    open_target(given.results)
    results = Path(given.results).absolute()
    request = FollowRequest(given.source, results, given.interval_s if given.continuous else None, client)
    config = connector_config() if is_topic(given.source) else None
    with spark_session("sluicegate audit follow", config) as spark:
        live = follow(spark, request, stopped, now_us)
    for line in described(live, results / LIVE):
        log.info("%s", line)
    return OK


def described(live: LiveManifest, folder: Path) -> list[str]:
    """Describe the published usage for users."""
    batches = sum(len(batches) for batches in live.batches.values())
    lines = [f"{live.rows:,} rows of usage in {batches} batches are in {folder}"]
    for query in sorted(live.late):
        late, skewed = live.late[query], live.skewed.get(query, 0)
        if late or skewed:
            lines.append(
                f"{query}: {late:,} rows came too late for this query, {skewed:,} have a time in the future: the "
                "next build processes them"
            )
    return lines
