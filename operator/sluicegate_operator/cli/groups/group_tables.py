"""Groups as tables for a terminal. Pure."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from kafka_bytes.printable import printable
from sluicegate_operator.cli.groups.group_report import GroupReport
from sluicegate_operator.cli.groups.offset_resets import Reset
from sluicegate_operator.kafka_admin.groups.group_views import GroupListing

STATE_STYLES = {"Stable": "green", "Empty": "dim"}
"""Styles of the lasting states of groups. All other states are transitions to one of these."""


def _state(name: str) -> Text:
    return Text(name, style=STATE_STYLES.get(name, "yellow"))


def _named(text: str) -> Text:
    return Text(printable(text))


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _lag(group: GroupReport) -> str:
    return "unknown" if group.lag is None else str(group.lag)


def groups_table(groups: Iterable[GroupListing]) -> Table:
    table = Table(title="Groups")
    for heading in ("group", "state", "type", "protocol"):
        table.add_column(heading, overflow="fold")
    for group in groups:
        table.add_row(_named(group.id), _state(group.state), group.type, _named(group.protocol_type or "-"))
    return table


def members_table(group: GroupReport) -> Table:
    epoch = "" if group.epoch is None else f", epoch {group.epoch}"
    title = _named(
        f"Group {group.id}: {group.state}, {group.type}{epoch}, {group.assignor or 'no assignor'}, lag {_lag(group)}"
    )
    table = Table(title=title)
    for heading in ("member", "client", "host", "instance"):
        table.add_column(heading, overflow="fold")
    for heading in ("epoch", "partitions"):
        table.add_column(heading, justify="right")
    for member in group.members:
        table.add_row(
            _named(member.id),
            _named(member.client_id),
            _named(member.host),
            _named(member.instance_id or "-"),
            _number(member.epoch),
            str(member.partitions),
        )
    return table


def offsets_table(group: GroupReport) -> Table:
    table = Table(title=_named(f"Offsets of {group.id}"))
    table.add_column("topic", overflow="fold")
    for heading in ("partition", "committed", "log end", "lag"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("client", "host"):
        table.add_column(heading, overflow="fold")
    for row in group.offsets:
        table.add_row(
            Text(row.topic),
            str(row.partition),
            _number(row.committed),
            _number(row.log_end),
            _number(row.lag),
            _named(row.client_id or "-"),
            _named(row.host or "-"),
        )
    return table


def resets_table(group_id: str, resets: Iterable[Reset], *, executed: bool) -> Table:
    table = Table(title=_named(f"{'New offsets' if executed else 'Plan'} of {group_id}"))
    table.add_column("topic", overflow="fold")
    for heading in ("partition", "before", "after", "lag after"):
        table.add_column(heading, justify="right", no_wrap=True)
    for reset in resets:
        table.add_row(Text(reset.topic), str(reset.partition), _number(reset.before), str(reset.after), str(reset.lag))
    return table
