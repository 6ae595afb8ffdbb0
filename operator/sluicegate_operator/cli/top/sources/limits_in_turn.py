"""Asks brokers for their limits often, with at most four requests each, however many limits there are.

A broker answers with pages of 500 addresses. While one page has all, each broker sends it at each look. With more
addresses, one broker of each cluster sends one page after another, one at each look. Every broker also sends the
addresses that it has refused.
"""

from dataclasses import dataclass, field
from urllib.parse import urlencode

from sluicegate_operator.cli.asking.brokers_asked import AskingError, BrokerAsked, Json, NoSuchAnswerError
from sluicegate_operator.cli.asking.limits_asked import GROUPS, LIMITS, readable
from sluicegate_operator.cli.asking.quota_rows import BrokerLimits
from sluicegate_operator.cli.top.model.figures_text import parse_figures
from sluicegate_operator.cli.top.model.look import BrokerFigures, BrokerKey

METRICS = "/metrics"
ITEMS_MAX = 100_000
"""Maximum number of addresses, or of groups, that are kept for one broker."""


@dataclass(slots=True)
class Pages:
    """The known items of all pages of one broker's answer, and the name after which the next page begins.

    `are_several` is whether the last page was not the only one.
    """

    path: str
    name: str
    items: dict[str, Json] = field(default_factory=dict)
    after: str = ""
    are_several: bool = False

    async def read(self, broker: BrokerAsked) -> tuple[Json, Json]:
        """Ask for the next page, and keep its items in place of the former ones. Returns the page and its items."""
        page = await broker.get(f"{self.path}?{urlencode({'after': self.after})}")
        found, end = page.get(self.name, {}), page.get("next")
        self.are_several = bool(self.after or end)
        if self.are_several:
            former = self.items.items()
            self.items = {key: item for key, item in former if key <= self.after or (end is not None and key > end)}
            if len(self.items) + len(found) <= ITEMS_MAX:
                self.items |= found
        else:
            self.items = dict(found)
        self.after = end or ""
        return page, found


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
        limits, ips = await self._items(broker, pages[0], 0, is_teller)
        _, groups = await self._items(broker, pages[1], 1, is_teller)
        # A broker of an earlier release answers with a page.
        refused = held.get("ips", {}) if "left_out" in held else {}
        limits = limits or held
        readable(BrokerLimits(broker.broker_id, limits, {**ips, **refused}, groups))
        self.figures[key] = await _figures(broker)
        return BrokerLimits(broker.broker_id, limits, {**pages[0].items, **refused}, pages[1].items)

    async def _items(self, broker: BrokerAsked, pages: Pages, which: int, is_teller: bool) -> tuple[Json, Json]:
        """Read a page and return it with its items; nothing if the teller of the cluster reads the pages."""
        teller = self._pages.get((broker.cluster, self._teller[broker.cluster]))
        if is_teller:
            return await pages.read(broker)
        if teller is not None and teller[which].are_several:
            pages.items = {}
            return {}, {}
        pages.after = ""
        return await pages.read(broker)


async def _figures(broker: BrokerAsked) -> BrokerFigures:
    """Return the figures of a broker's metrics; none if only this answer is missing."""
    try:
        return parse_figures(await broker.text(METRICS))
    except (AskingError, NoSuchAnswerError):
        return BrokerFigures()
