"""What other limits would have done to connections, beside what really happened. Pure."""

from collections.abc import Sequence

from audit_pipeline.report.figures.report import Subjects
from audit_pipeline.report.figures.tried import Tried
from audit_pipeline.report.markup import Child, Markup, named
from audit_pipeline.report.sections.parts import Cell, Column, Entry, left_out, nothing, paragraph, section, table
from audit_pipeline.report.words import count, latency, number_of

_TITLE = "What if"


def tried_section(found: Subjects) -> Markup:
    tried = found.tried
    if not tried.limits:
        return section("tried", _TITLE, nothing("No limits were tried: `build --what-if FILE` tries limits."))
    shown = found.windows.shown
    text = paragraph(
        f"Connections of {shown.first_day} to {shown.last_day}, whole days, under other limits. Each connection counts "
        "in one row: that of the limit that rejects it, or else first delays it. Columns on the right say what really "
        "happened to the same connections."
    )
    limits = table("By limit", _columns("clients"), [_row(row, count(row.clients)) for row in tried.limits])
    clients = None
    if tried.clients:
        rows = [_row(row, _client(row)) for row in tried.clients]
        clients = table(
            "By limit and client, most delayed and rejected connections first", _columns("client"), rows, is_tall=True
        )
    more = left_out(tried.clients_total - len(tried.clients), "clients")
    return section("tried", _TITLE, text, limits, clients, more, _unknown(tried.limits))


def _columns(of: str) -> Sequence[Column]:
    return (
        Column("limit"),
        Column(of, is_number=of == "clients"),
        Column("connections", is_number=True),
        Column("accepted", is_number=True),
        Column("delayed", is_number=True),
        Column("p50", is_number=True),
        Column("p99", is_number=True),
        Column("longest", is_number=True),
        Column("rejected", is_number=True),
        Column("really accepted", is_number=True),
        Column("delayed", is_number=True),
        Column("longest", is_number=True),
        Column("rejected", is_number=True),
    )


def _row(row: Tried, of: Child) -> Sequence[Entry]:
    limit: Child = "no limit met" if row.limit is None else named(row.limit)
    return (
        limit,
        of,
        *(Cell(count(number), number) for number in (row.connections, row.accepted, row.delayed)),
        *(_time(us) for us in (row.delay_p50_us, row.delay_p99_us, row.delay_max_us)),
        *(Cell(count(number), number) for number in (row.rejected, row.was_accepted, row.was_delayed)),
        _time(row.was_delay_max_us),
        Cell(count(row.was_rejected), row.was_rejected),
    )


def _time(us: int | None) -> Cell:
    return Cell("", -1) if us is None else Cell(latency(us), us)


def _client(row: Tried) -> Child:
    return [named(row.client_ip or ""), *([", ", named(row.client_id)] if row.client_id else [])]


def _unknown(limits: Sequence[Tried]) -> Markup | None:
    """Return sentences about facts that a log does not have, as far as they matter for these numbers."""
    sentences = []
    rejected, later, admitted = (
        sum(getattr(row, name) for row in limits) for name in ("rejected_now", "later", "admitted_now")
    )
    if rejected:
        sentences.append(
            f"{number_of(rejected, 'connection')} that really were accepted would be rejected: a log cannot tell how "
            "often their clients would have tried again."
        )
    if later:
        sentences.append(
            f"{number_of(later, 'connection')} would be accepted later: a log cannot tell which of their clients would "
            "have hung up before."
        )
    if admitted:
        sentences.append(f"{number_of(admitted, 'connection')} that really were rejected would be accepted.")
    return paragraph(" ".join(sentences)) if sentences else None
