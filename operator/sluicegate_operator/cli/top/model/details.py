"""The details of one row: all of its figures with their meaning, and the same limit or group in full. Pure."""

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from kafka_bytes.printable import printable
from sluicegate_operator.cli.asking.quota_rows import QuotaRow
from sluicegate_operator.cli.fleets.fleet_tables import quotas_table
from sluicegate_operator.cli.fleets.fleet_view import ShownCluster
from sluicegate_operator.cli.groups.group_tables import members_table, offsets_table
from sluicegate_operator.cli.top.model.columns import Screen
from sluicegate_operator.cli.top.model.lines import AddressLine, BrokerLine, GroupLine, LimitLine, StormLine, TopView

_ADDRESS = "ip "
KEYS = (
    ("Up, Down, PgUp, PgDn, Home, End", "move; j, k, g and G as well"),
    ("1 to 7, Tab, Shift-Tab, Left, Right", "show another table"),
    ("Enter", "show the details of a row; for an address, which limits apply to it and why"),
    ("/", "filter rows by words; !WORD leaves rows out; Escape removes the filter"),
    ("s, S", "sort by the next or the previous column; a click on a heading sorts, too"),
    ("r", "reverse the order"),
    ("p, Space", "pause and continue"),
    ("y", "copy the row, or the text of a window, to the clipboard of the terminal (OSC 52)"),
    ("?", "show this help"),
    ("q", "close a window, or end the console"),
)


def address_of(row: Any) -> str | None:
    """Return the address that a row is about; None for all other rows."""
    if isinstance(row, AddressLine):
        return row.address
    if isinstance(row, LimitLine | StormLine) and row.target.startswith(_ADDRESS):
        return row.target.removeprefix(_ADDRESS)
    return None


def title_of(screen: Screen, row: Any) -> str:
    names = [str(part) for part in screen.identity(row)[1:]]  # type: ignore[index]
    kind = screen.title.removesuffix("es" if screen.key == "addresses" else "s")
    return printable(f"{kind} {' '.join(names)}, cluster {row.cluster}")


def details(screen: Screen, row: Any, view: TopView) -> list[RenderableType]:
    """Return the details of a row, which fit into 80 columns."""
    found: list[RenderableType] = []
    problem = screen.problem(row)
    if problem:
        found.append(Text(problem, style="bold red"))
    found.append(facts(screen, row))
    limits = _limits(row, view)
    if limits:
        found.append(quotas_table([ShownCluster(row.cluster, (), (), "", {}, tuple(limits), ())]))
    if isinstance(row, GroupLine) and row.report is not None:
        found += [members_table(row.report), offsets_table(row.report)]
    return found


def facts(screen: Screen, row: Any) -> Table:
    """Return a table with each figure of a row and its meaning."""
    table = _plain_table("figure", "value", "meaning")
    for column in screen.columns:
        table.add_row(column.heading, Text(column.text(row)), Text(column.meaning))
    return table


def _limits(row: Any, view: TopView) -> Sequence[QuotaRow]:
    if isinstance(row, LimitLine):
        return row.rows
    if isinstance(row, StormLine):
        return [one for line in view.limits if line[:2] == row[:2] for one in line.rows]
    if isinstance(row, BrokerLine):
        of_cluster = [line for line in view.limits if line.cluster == row.cluster]
        return [one for line in of_cluster for one in line.rows if one.broker_id == row.id][:100]
    return ()


def help_of(screen: Screen) -> list[RenderableType]:
    """Return the keys, and the meaning of the columns of a table."""
    keys = _plain_table("key", "effect")
    for key, effect in KEYS:
        keys.add_row(key, effect)
    columns = _plain_table(f"{screen.title.lower()}: column", "meaning")
    for column in screen.columns:
        columns.add_row(column.heading, Text(column.meaning))
    return [keys, columns]


def _plain_table(*headings: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def copied(screen: Screen, row: Any) -> str:
    """Return a row for the clipboard: headings and whole values on two lines, separated by tabs."""
    headings = "\t".join(column.heading for column in screen.columns)
    values = "\t".join(column.text(row) for column in screen.columns)
    problem = screen.problem(row)
    return f"{headings}\n{values}\n" + (f"{problem}\n" if problem else "")
