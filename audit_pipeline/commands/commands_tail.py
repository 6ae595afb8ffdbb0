"""The `tail` command: events as brokers write them. Shell."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any, Final

from audit_pipeline.commands.asked import PLACE
from audit_pipeline.commands.commands import OK, require_folders
from audit_pipeline.contract import contract
from audit_pipeline.errors import BadUseError
from audit_pipeline.ingest.selection import Selection
from audit_pipeline.ingest.tail import SpoolTail, as_json, as_line, follow
from audit_pipeline.patterns import fits
from audit_pipeline.results.settings import APIS
from audit_pipeline.results.tables import OWN_CLIENTS
from audit_pipeline.spool.spool import OtherVersionError

_POLL_S: Final = 0.2


def add_tail(found: Any) -> None:
    """Add `tail` to the commands of `found`, the result of argparse's add_subparsers."""
    tail = found.add_parser("tail", help="show events as a broker writes them")
    tail.add_argument("spools", type=Path, nargs="+", help="the folder to which a broker writes its spools")
    tail.add_argument(
        "--table",
        action="append",
        choices=sorted(contract().tables),
        default=[],
        help="show only this table; may be repeated",
    )
    tail.add_argument("--client", help=f"show only this client ID: {PLACE}")
    tail.add_argument("--topic", help=f"show only partitions and changes of this topic: {PLACE}")
    tail.add_argument("--api", type=_api, help="show only this API, such as Produce, or its beginning and a star")
    tail.add_argument(
        "--own",
        action="store_true",
        help=f"also show followers and Sluicegate's own clients, whose IDs begin with {OWN_CLIENTS}",
    )
    tail.add_argument("--from-start", action="store_true", help="also show the events that are already in the spools")
    tail.add_argument("--once", action="store_true", help="stop after showing the existing events")
    tail.add_argument("--json", action="store_true", help="print a line of JSON for each event")
    tail.set_defaults(run=show)


def _api(text: str) -> str:
    if not any(fits(text, api) for api in APIS):
        raise argparse.ArgumentTypeError(f"{text} is not Kafka's name of an API such as Produce, nor a beginning and *")
    return text


def show(given: argparse.Namespace, stopped: Event, _: Callable[[], int]) -> int:
    require_folders(given.spools)
    selection = Selection(given.table, given.client, given.topic, given.api, given.own)
    line_of = as_json if given.json else as_line
    try:
        spools = SpoolTail(given.spools, from_start=given.from_start)
        if not given.once:
            print(f"following {', '.join(map(str, given.spools))}; Ctrl-C ends it", file=sys.stderr)
        for line in follow(spools, selection, line_of, lambda: given.once or stopped.wait(_POLL_S), stopped.is_set):
            print(line, flush=True)
    except OtherVersionError as error:
        raise BadUseError(f"a spool cannot be read: {error}") from None
    return OK
