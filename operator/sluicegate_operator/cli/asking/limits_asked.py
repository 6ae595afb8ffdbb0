"""Asks one broker for its limits, page by page."""

from collections.abc import Awaitable, Callable
from urllib.parse import urlencode

from sluicegate_operator.cli.asking.brokers_asked import AskingError, BrokerAsked, Json, NoSuchAnswerError
from sluicegate_operator.cli.asking.quota_rows import BrokerLimits, quota_rows

LIMITS, GROUPS = "/connection-limits", "/connection-quotas"
PAGES_MAX = 100

AskLimits = Callable[[BrokerAsked], Awaitable[BrokerLimits]]
"""A function that asks a broker for its limits. It raises AskingError."""


async def ask_limits(broker: BrokerAsked) -> BrokerLimits:
    """Return all limits of a broker that `quota_rows` shows. Raises AskingError."""
    first, ips = await _all(broker, LIMITS, "ips")
    _, groups = await _all(broker, GROUPS, "groups")
    return readable(BrokerLimits(broker.broker_id, first, ips, groups))


def readable(limits: BrokerLimits) -> BrokerLimits:
    """Return `limits`. Raises NoSuchAnswerError if `quota_rows` cannot read them."""
    try:
        quota_rows([limits])
    except ValueError as error:
        raise NoSuchAnswerError(f"the broker's release returns another format: {error}") from error
    return limits


async def _all(broker: BrokerAsked, path: str, items: str) -> tuple[Json, Json]:
    """Return the first page, and the items of all pages."""
    page = first = await broker.get(f"{path}?{urlencode({'after': ''})}")
    found: Json = {}
    for _ in range(PAGES_MAX):
        found |= page.get(items, {})
        after = page.get("next")
        if after is None:
            return first, found
        page = await broker.get(f"{path}?{urlencode({'after': after})}")
    raise AskingError(f"the broker has more than {PAGES_MAX} pages of {items}")
