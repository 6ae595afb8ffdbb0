"""The counts of all brokers for connection groups that only observe, as field status.observed has them. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sluicegate_operator.api.models.connection_quota import ObservedCounts

TOO_MANY = "too_many"
"""The brokers' reason for a connection over a count; all other reasons are for a rate."""

Counts = Mapping[str, Mapping[str, int]]
"""The counts of one broker, by group and reason."""


def would_hold(page: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Parse a broker's answer to GET /connection-quotas: its counts by group and reason.

    Raises ValueError if `page` is another document.
    """
    try:
        return {name: {k: int(v) for k, v in group["would_hold"].items()} for name, group in page["groups"].items()}
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"the broker's response has no counts of groups: {error!r}") from error


def observed(
    group: str, answers: Sequence[Counts | None], before: ObservedCounts | None, now: datetime
) -> ObservedCounts:
    """Return the status of a quota that only observes: the sum of what the brokers counted.

    `answers` has None for a broker that did not answer.
    """
    counts: Counter[str] = Counter()
    for answer in answers:
        counts.update((answer or {}).get(group, {}))
    answered = sum(answer is not None for answer in answers)
    found = ObservedCounts(
        would_hold=counts.total(),
        by_rate=counts.total() - counts[TOO_MANY],
        by_count=counts[TOO_MANY],
        brokers=f"{answered}/{len(answers)}",
        at=None if before is None else before.at,
    )
    return found if before == found else found.model_copy(update={"at": now})
