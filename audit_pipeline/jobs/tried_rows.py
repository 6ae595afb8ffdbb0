"""Converts the counts of a replay to rows of the table what_if. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

from audit_pipeline.contract import Boot
from audit_pipeline.results.buckets import bucket_with
from audit_pipeline.what_if.attempts import Outcome
from audit_pipeline.what_if.summary import NamedLimits, Summary, Tally


def what_if_rows(day: date, boot: Boot, summary: Summary, limits: NamedLimits) -> Iterator[Sequence[Any]]:
    """Yield rows in the order of the table's columns."""
    for (limit, address), tally in summary.replayed.items():
        changed = summary.changed[limit, address]
        yield (
            day,
            *boot,
            *((None, None, None) if limit is None else (limits.name_of(limit), limit.key, limit.entity)),
            address,
            summary.client_ids.get(address),
            sum(tally.outcomes.values()),
            *_columns(tally),
            *_columns(summary.recorded[limit, address]),
            changed.rejected_now,
            changed.admitted_now,
            changed.later,
        )


def _columns(tally: Tally) -> Sequence[Any]:
    outcomes = tally.outcomes
    return (
        outcomes[Outcome.ACCEPTED],
        len(tally.delays_us),
        max(tally.delays_us, default=None),
        sorted(Counter(map(bucket_with, tally.delays_us)).items()),
        outcomes[Outcome.REJECTED],
        outcomes[Outcome.LEFT],
        outcomes[Outcome.WAITING],
    )
