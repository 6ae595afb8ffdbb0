"""Asks brokers for their limits often, with at most four requests each, however many limits there are.

A broker answers with pages of 500 addresses. While one page has all, each broker sends it at each look. With more
addresses, one broker of each cluster sends one page after another, one at each look. Every broker also sends the
addresses that it has refused.
"""

from dataclasses import dataclass, field
from urllib.parse import urlencode

from sluicegate_operator.cli.asking.brokers_asked import AskingError, BrokerAsked, Json, NoSuchAnswerError
from sluicegate_operator.cli.asking.limits_asked import GROUPS, LIMITS, readable
from sluicegate_operator.cli.asking.quota_rows import BrokerLimits, QuotaRow, quota_rows
from sluicegate_operator.cli.top.model.figures_text import parse_figures
from sluicegate_operator.cli.top.model.look import BrokerFigures, BrokerKey

METRICS = "/metrics"
_NONE: Json = {"connection_creation_rate": None, "max_connections": None, "held": {}}
_NO_LIMITS: Json = {"broker": _NONE, "listeners": {}, "default_ip": _NONE}
ITEMS_MAX = 100_000
"""Maximum number of addresses, or of groups, that are kept for one broker."""


@dataclass(slots=True)
class Pages:
    """The known rows of all pages of one broker's answer, and the name after which the next page begins.

    `are_several` is whether the last page was not the only one. A row of a page that was not read again stays the same
    object, so that the console does not compute its line again.
    """

    path: str
    name: str
    rows: dict[str, QuotaRow] = field(default_factory=dict)
    after: str = ""
    are_several: bool = False

    async def read(self, broker: BrokerAsked) -> Json:
        """Ask for the next page, and keep its rows in place of the former ones. Returns the page."""
        page = await broker.get(f"{self.path}?{urlencode({'after': self.after})}")
        found, end = _rows(broker, {self.name: page.get(self.name, {})}), page.get("next")
        self.are_several = bool(self.after or end)
        if self.are_several:
            former = self.rows.items()
            self.rows = {key: row for key, row in former if key <= self.after or (end is not None and key > end)}
            if len(self.rows) + len(found) <= ITEMS_MAX:
                self.rows |= found
        else:
            self.rows = found
        self.after = end or ""
        return page


def _rows(broker: BrokerAsked, items: Json) -> dict[str, QuotaRow]:
    """Return the rows of addresses or groups by name. Raises NoSuchAnswerError for another format."""
    limits = BrokerLimits(broker.broker_id, _NO_LIMITS, items.get("ips", {}), items.get("groups", {}))
    found = quota_rows([readable(limits)])
    return {name: row for row in found for kind, _, name in [row.target.partition(" ")] if kind in ("ip", "group")}


class LimitsInTurn:
    """The function `ask` for a view of clusters. The figures of the brokers' metrics are kept beside the limits."""

    def __init__(self) -> None:
        self.figures: dict[BrokerKey, BrokerFigures] = {}
        self._pages: dict[BrokerKey, tuple[Pages, Pages]] = {}
        self._teller: dict[str, int] = {}
        """The broker of each cluster that sends all pages."""

    def begin(self) -> None:
        """Begin a look. A broker that did not answer at the last one is no teller any more."""
        for cluster, broker_id in list(self._teller.items()):
            if (cluster, broker_id) not in self.figures:
                self._pages.pop((cluster, broker_id), None)
                del self._teller[cluster]
        self.figures = {}

    async def ask(self, broker: BrokerAsked) -> BrokerLimits:
        """Return the limits of a broker that are known now. Raises AskingError."""
        key = broker.cluster, broker.broker_id
        is_teller = self._teller.setdefault(*key) == broker.broker_id
        pages = self._pages.setdefault(key, (Pages(LIMITS, "ips"), Pages(GROUPS, "groups")))
        held = await broker.get(f"{LIMITS}?held=true")
        limits = await self._page(broker, pages[0], 0, is_teller)
        await self._page(broker, pages[1], 1, is_teller)
        # A broker of an earlier release answers with a page.
        refused = _rows(broker, {"ips": held.get("ips", {})}) if "left_out" in held else {}
        self.figures[key] = await _figures(broker)
        readable(BrokerLimits(broker.broker_id, limits or held))
        rows = ({**pages[0].rows, **refused}).values()
        return BrokerLimits(broker.broker_id, limits or held, rows=(*rows, *pages[1].rows.values()))

    async def _page(self, broker: BrokerAsked, pages: Pages, which: int, is_teller: bool) -> Json:
        """Read a page and return it; nothing if the teller of the cluster reads the pages."""
        teller = self._pages.get((broker.cluster, self._teller[broker.cluster]))
        if is_teller:
            return await pages.read(broker)
        if teller is not None and teller[which].are_several:
            pages.rows = {}
            return {}
        pages.after = ""
        return await pages.read(broker)


async def _figures(broker: BrokerAsked) -> BrokerFigures:
    """Return the figures of a broker's metrics; none if only this answer is missing."""
    try:
        return parse_figures(await broker.text(METRICS))
    except (AskingError, NoSuchAnswerError):
        return BrokerFigures()
