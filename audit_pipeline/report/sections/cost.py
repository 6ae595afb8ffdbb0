"""The cost by principal or client, and by topic. Pure."""

from collections.abc import Sequence

from audit_pipeline.report.figures.cost import Bill, CostLine
from audit_pipeline.report.figures.report import Subjects
from audit_pipeline.report.markup import Child, Markup, named, tag
from audit_pipeline.report.sections.parts import Column, Facets, Followed, bar, nothing, paragraph, section, table
from audit_pipeline.report.words import about, number_of, percent, size, three_digits

_BYTE_HOURS_OF_A_MONTH = 730
_CAPTIONS = {"principal": "Cost by principal", "client_id": "Cost by client ID", "topic": "Cost by topic"}
_NAMES = {"principal": "principal", "client_id": "client ID", "topic": "topic"}
_FOLLOWS = {"principal": ("cluster",), "client_id": ("cluster", "client"), "topic": ("cluster", "topic")}
_UNATTRIBUTED = {
    "principal": "unattributed: usage without a known principal",
    "client_id": "unattributed: usage without a known client",
    "topic": "unattributed: requests, which belong to no topic",
}


def cost_section(found: Subjects) -> Markup:
    bills = found.cost.bills
    if not bills:
        return section("cost", "Cost", nothing("Nothing that could have a cost was used in these days."))
    shown = found.windows.shown
    text = paragraph(
        f"{shown.first_day} to {shown.last_day}, whole days. The unit of storage is a size that is kept for a "
        "month of 730 hours."
    )
    several = len(found.clusters) > 1
    return section("cost", "Cost", text, [_bill(bill, several=several) for bill in bills])


def _bill(bill: Bill, *, several: bool) -> Markup:
    heading = tag("h3", "Cluster ", named(bill.cluster_id)) if several else None
    listing = _table(
        _CAPTIONS[bill.dimension], [*bill.lines, *filter(None, (bill.others, bill.own, bill.unattributed))], bill
    )
    own = None
    if bill.own is not None:
        told = tag("summary", f"Sluicegate's own: {number_of(bill.own.names, _NAMES[bill.dimension])}")
        own = tag("details", told, _table("Sluicegate's own, the most expensive first", bill.own_lines, bill))
    if bill.dimension == "topic":
        # The whole amount is that of the bill before.
        return _article(bill, listing)
    whole: Child = nothing("Without prices the table has only quantities: `build --prices FILE` sets prices.")
    if bill.amount is not None and bill.currency is not None:
        whole = paragraph("All together ", tag("strong", f"{bill.amount:,.2f} ", named(bill.currency)), ".")
    return _article(bill, heading, whole, listing, own)


def _article(bill: Bill, *inside: Child) -> Markup:
    return tag("article", inside, data_follows="cluster", data_cluster=bill.cluster_id)


def _table(caption: str, lines: Sequence[CostLine], bill: Bill) -> Markup:
    largest = max([line.share or 0.0 for line in lines]) or 1.0
    columns = (
        Column("who"),
        Column("share", is_number=True),
        Column(bill.currency or "amount", is_number=True),
        *(Column(name, is_number=True) for name in ("in", "out", "requests", "storage", "partition-hours")),
    )
    rows = [
        (
            [
                _who(line, bill),
                bar((line.share or 0.0) / largest, "fill others" if line.name is None else "fill fill-2"),
            ],
            "" if line.share is None else percent(line.share),
            "" if line.amount is None else _money(line.amount),
            size(line.ingress),
            size(line.egress),
            about(line.requests),
            f"{size(line.storage / _BYTE_HOURS_OF_A_MONTH)}-months" if line.storage else "0",
            about(line.partitions),
        )
        for line in lines
    ]
    followed = Followed(_FOLLOWS[bill.dimension], [_facets(line, bill) for line in lines])
    return table(caption, columns, rows, followed=followed)


def _facets(line: CostLine, bill: Bill) -> Facets:
    client = line.name if bill.dimension == "client_id" else None
    return Facets(bill.cluster_id, client, line.name if bill.dimension == "topic" else None)


def _money(amount: float) -> str:
    """Format an amount; one above zero is never shown as 0.00."""
    return f"{amount:,.2f}" if amount >= 1 or not amount else three_digits(amount)


def _who(line: CostLine, bill: Bill) -> Child:
    if line is bill.unattributed:
        return tag("em", _UNATTRIBUTED[bill.dimension])
    if line is bill.own:
        return tag("em", f"Sluicegate's own, {number_of(line.names, _NAMES[bill.dimension])}")
    if line.name is None:
        return tag("em", f"{number_of(line.names, 'other')} together")
    return named(line.name)
