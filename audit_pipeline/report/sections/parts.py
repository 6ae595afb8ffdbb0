"""The parts of sections: headings, tables, bars in cells. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeAlias

from audit_pipeline.report.markup import Child, Markup, named, tag
from audit_pipeline.report.window import SECOND_US
from audit_pipeline.report.words import count


@dataclass(frozen=True, slots=True)
class Column:
    """The head of a table's column, and how its cells are shown.

    - `is_number`: cells are right-aligned and sorted by value.
    - `is_whole`: cells are not wrapped.
    - `order`: the order of the rows, if the table is sorted by this column.
    """

    head: str
    is_number: bool = False
    is_whole: bool = False
    order: str | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table: its shown content, and the value by which it is sorted."""

    shown: Child
    value: float | str


Entry: TypeAlias = "Child | Cell"


@dataclass(frozen=True, slots=True)
class Facets:
    """The values of a row that the page's filter compares. A filter by a facet that is None hides the row."""

    cluster: str | None = None
    client: str | None = None
    topic: str | None = None
    from_us: int | None = None
    to_us: int | None = None

    def attributes(self) -> dict[str, str | int | None]:
        return {
            "data_cluster": self.cluster,
            "data_client": self.client,
            "data_topic": self.topic,
            "data_since": None if self.from_us is None else self.from_us // SECOND_US,
            "data_until": None if self.to_us is None else -(-self.to_us // SECOND_US),
        }


@dataclass(frozen=True, slots=True)
class Followed:
    """The way in which a table follows the page's filter.

    `names` are those of cluster, client, topic and time by which it is filtered, `rows` the facets of its rows.
    """

    names: Sequence[str]
    rows: Sequence[Facets]


def section(anchor: str, title: str, *inside: Child) -> Markup:
    return tag("section", tag("h2", title, id=f"{anchor}-title"), inside, id=anchor, aria_labelledby=f"{anchor}-title")


def paragraph(*text: Child) -> Markup:
    return tag("p", text)


def nothing(*text: Child) -> Markup:
    """Return the text for a section without data."""
    return tag("p", text, class_="nothing")


def left_out(number: int, what: str, element_id: str | None = None) -> Markup | None:
    told = f"{count(number)} more {what} are not listed."
    return tag("p", told, class_="unit", id=element_id) if number > 0 else None


def table(
    caption: Child,
    columns: Sequence[Column],
    rows: Iterable[Sequence[Entry]],
    *,
    table_id: str | None = None,
    followed: Followed | None = None,
    is_tall: bool = False,
) -> Markup:
    """Return a table as HTML.

    With an ID the table can be sorted, by mouse and keyboard. A tall table scrolls in its own box.

    On a phone each row is a block, and each cell has its heading.
    """
    made = _table(caption, columns, rows, is_sorted=table_id is not None, facets=followed.rows if followed else ())
    box: dict[str, str] = {"class_": "scroll"}
    if is_tall:
        box = {"class_": "scroll tall", "tabindex": "0", "role": "region", "aria_label": "Table"}
    follows = " ".join(followed.names) if followed else None
    return tag("div", tag("table", made, id=table_id, class_="rows", data_follows=follows), **box)


def table_filter(label: str, table_id: str, rows: int, *more: Markup, of_rows: bool = False) -> Markup:
    """Return the form that hides rows of a table without a text in their first cell, or in any cell if `of_rows`.

    `more` are other fields of the form. page.js shows the form, and filters.
    """
    return tag(
        "form",
        tag("label", label, tag("input", type="search", autocomplete="off", data_filter=table_id)),
        more,
        tag("output", f"{rows} of {rows}", data_count=table_id, aria_live="polite"),
        class_="filter",
        data_whole="" if of_rows else None,
        hidden=True,
    )


def small_table(caption: str, columns: Sequence[Column], rows: Iterable[Sequence[Entry]]) -> Markup:
    """Return a table that fits on a phone."""
    return tag("table", _table(caption, columns, rows, is_sorted=False))


def bar(share: float, kind: str = "fill fill-0") -> Markup:
    """Return a bar as wide as its share of the cell."""
    part = min(1.0, max(0.0, share))
    drawn = tag("rect", width=f"{part * 100:.4g}%", height=8, rx=1, class_=kind)
    return tag("svg", drawn, class_="bar", width="100%", height=8, aria_hidden="true")


@dataclass(frozen=True, slots=True)
class Clusters:
    """The place of the cluster in a table: each row, the caption, or nowhere if there is only one cluster."""

    in_rows: bool
    caption: Child

    @staticmethod
    def of(ids: Iterable[str | None], known: int) -> "Clusters":
        """Decide for the clusters of the rows, if the audit log has `known` clusters."""
        different = {cluster_id for cluster_id in ids if cluster_id is not None}
        if known < 2 or not different:
            return Clusters(False, None)
        if len(different) > 1:
            return Clusters(True, None)
        return Clusters(False, [", all of cluster ", named(next(iter(different)))])

    def name(self, name: str, cluster_id: str | None) -> Child:
        """Return the name, with its cluster in small letters below it if rows show clusters."""
        told = self.in_rows and cluster_id is not None
        return [named(name), tag("span", named(cluster_id or ""), class_="cluster") if told else None]


def mark(text: str, tone: str) -> Markup:
    """Return the word `text` in the colour of `tone`, such as good or bad. The word says the same as the colour."""
    return tag("span", text, class_=f"mark {tone}")


def _table(
    caption: Child,
    columns: Sequence[Column],
    rows: Iterable[Sequence[Entry]],
    *,
    is_sorted: bool,
    facets: Sequence[Facets] = (),
) -> Iterable[Markup]:
    yield tag("caption", caption)
    yield tag("thead", tag("tr", [_head(column, is_sorted=is_sorted) for column in columns]))
    body = []
    for row, facet in zip_longest(rows, facets):
        cells = enumerate(zip(row, columns, strict=True))
        attributes = facet.attributes() if facet else {}
        body.append(tag("tr", [_cell(*cell, is_first=not number) for number, cell in cells], **attributes))
    yield tag("tbody", body)


def _kind(column: Column) -> str | None:
    return "number" if column.is_number else "whole" if column.is_whole else None


def _head(column: Column, *, is_sorted: bool) -> Markup:
    kind = _kind(column)
    inside: Child = tag("button", column.head, type="button") if is_sorted else column.head
    return tag("th", inside, scope="col", class_=kind, aria_sort=column.order)


def _cell(cell: Entry, column: Column, *, is_first: bool) -> Markup:
    shown, value = (cell.shown, cell.value) if isinstance(cell, Cell) else (cell, None)
    kind = _kind(column)
    if is_first:
        return tag("th", shown, scope="row", class_=kind, data_value=value)
    return tag("td", shown, class_=kind, data_value=value, data_head=column.head)
