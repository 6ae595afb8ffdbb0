"""What the commands that print results share: time window, filters, own clients, and the form of the output."""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from audit_pipeline.commands.commands import CELL_CHARS_MAX, print_csv, print_table
from audit_pipeline.errors import BadUseError
from audit_pipeline.patterns import beginning_of
from audit_pipeline.results.tables import OWN_CLIENTS, is_own_client

PLACE: Final = "a name, or its beginning and a star, such as orders-*"


@dataclass(frozen=True, slots=True)
class Asked:
    """The part of the audit results that a command was asked to show.

    Times are microseconds since 1970 (UTC), `to_us` is excluded; None is all.
    """

    from_us: int | None = None
    to_us: int | None = None
    cluster: str | None = None
    client: str | None = None
    topic: str | None = None
    is_with_own: bool = False

    def condition(
        self,
        *,
        time: str | None = None,
        step_us: int = 1,
        cluster: str | None = "cluster_id",
        client: str | None = None,
        topic: str | None = None,
    ) -> str:
        """Return the SQL condition that selects the wanted rows. The values of its parameters are `parameters`.

        The arguments are names of columns. A filter whose column is None is not applied. A row covers `step_us` from
        its `time`, and is selected if this interval overlaps the wanted time. With `client`, rows of this project's own
        clients are left out unless `is_with_own` is set. A row without a client ID does not count as one of these.
        """
        parts = []
        if time is not None and self.from_us is not None:
            parts.append(f"epoch_us({time}) + {step_us} > $asked_from_us")
        if time is not None and self.to_us is not None:
            parts.append(f"epoch_us({time}) < $asked_to_us")
        for column, name, wanted in (
            (cluster, "cluster", self.cluster),
            (client, "client", self.client),
            (topic, "topic", self.topic),
        ):
            if column is not None and wanted is not None:
                is_whole = beginning_of(wanted) is None
                parts.append(f"{column} = $asked_{name}" if is_whole else f"starts_with({column}, $asked_{name})")
        if client is not None and not self.is_with_own:
            parts.append(f"NOT {is_own_client(client)}")
        return " AND ".join(parts) or "true"

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the arguments of `PublishedTables.ask` for the SQL of `condition`."""
        times = {"asked_from_us": self.from_us, "asked_to_us": self.to_us}
        names = {"asked_cluster": self.cluster, "asked_client": self.client, "asked_topic": self.topic}
        return {**times, **{name: None if value is None else _text(value) for name, value in names.items()}}


def _text(wanted: str) -> str:
    """Return the text of a pattern, without its star."""
    beginning = beginning_of(wanted)
    return wanted if beginning is None else beginning


def add_asked(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add the arguments --results, the time window, --cluster and the output.

    Also those of the filters `client` and `topic` given in `names`.
    """
    parser.add_argument("--results", required=True, help="as for `build`: a folder or URI with published results")
    add_window(parser)
    if "client" in names:
        parser.add_argument("--client", help=f"client ID: {PLACE}")
        parser.add_argument(
            "--own", action="store_true", help=f"also show Sluicegate's own clients, whose IDs begin with {OWN_CLIENTS}"
        )
    if "topic" in names:
        parser.add_argument("--topic", help=f"topic: {PLACE}")
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "json", "csv"),
        default="table",
        help=f"table truncates values to {CELL_CHARS_MAX} characters; json (a line for each row) and csv do not",
    )


def add_times(parser: argparse.ArgumentParser) -> None:
    """Add the arguments --from and --to of a command about audit events."""
    parser.add_argument(
        "--from", dest="asked_from", type=time_of_start, help="UTC day or time, such as 2026-11-22T15:30"
    )
    parser.add_argument(
        "--to", dest="asked_to", type=time_of_end, help="UTC day, which is included, or time, which is excluded"
    )


def add_window(parser: argparse.ArgumentParser) -> None:
    """Add the arguments --from, --to and --cluster."""
    add_times(parser)
    parser.add_argument("--cluster", help=f"cluster ID: {PLACE}")


def window_of(given: argparse.Namespace) -> tuple[int | None, int | None]:
    """Return the times of --from and --to in microseconds since 1970, None for an absent option.

    Raises BadUseError if the time window is empty.
    """
    from_us, to_us = given.asked_from, given.asked_to
    if from_us is not None and to_us is not None and from_us >= to_us:
        raise BadUseError("--from is not before --to: the time window is empty")
    return from_us, to_us


def asked_of(given: argparse.Namespace) -> Asked:
    """Return the values of the arguments of `add_asked`. Raises BadUseError if the time window is empty."""
    return Asked(
        *window_of(given),
        given.cluster,
        getattr(given, "client", None),
        getattr(given, "topic", None),
        getattr(given, "own", False),
    )


def ask(results: str, sql: str, asked: Asked, **given: Any) -> Sequence[dict[str, Any]]:
    """Return the rows of the SQL over published results. Raises BadUseError without results, OSError."""
    # Only the commands that need DuckDB load it.
    from audit_pipeline.report.asking import PublishedTables  # noqa: PLC0415
    from audit_pipeline.spool.targets import open_target  # noqa: PLC0415

    return PublishedTables(open_target(results)).ask(sql, **asked.parameters, **given)


def show(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], output: str) -> None:
    """Print the columns of the rows in one of the forms of --output. Keys of JSON have no spaces."""
    values = [[row[name] for name in columns] for row in rows]
    if output == "json":
        for each in values:
            print(json.dumps(dict(zip(columns, map(_plain, each), strict=True))))
    elif output == "csv":
        print_csv(columns, [list(map(_plain, each)) for each in values])
    else:
        print_table(columns, [list(map(_shown, each)) for each in values])


def _plain(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


def _shown(value: Any) -> Any:
    """Return a value as a person reads it: numbers in groups of three digits, times in whole seconds."""
    if isinstance(value, bool) or value is None:
        return "" if value is None else "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else value


def time_of_start(text: str) -> int:
    """Parse the start of a time window, as microseconds since 1970."""
    return _us(_time(text))


def time_of_end(text: str) -> int:
    """Parse the end of a time window: a day ends at the next midnight."""
    return _us(_time(text) + timedelta(days=1 if len(text) == len("2026-11-22") else 0))


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text} is not a UTC day such as 2026-11-22 or a time such as 2026-11-22T15:30"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _us(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
