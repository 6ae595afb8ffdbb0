"""A mirror's batches: other batches, with other boundaries; and the records that it leaves out."""

from typing import Any, Final, NamedTuple

import numpy as np

from tests.support.audit.audit_weeks.cast import MIRRORED
from tests.support.audit.audit_weeks.requests import MINUTE_US, SECOND_US, Requests, mirrored

Numbers = np.ndarray[Any, Any]

BUCKET_US: Final = 10 * MINUTE_US
_BATCH_US: Final = 37 * SECOND_US
"""The mirror makes one batch of the records of so long a time, independent of the source's batches."""
_LAG_US: Final = 5 * SECOND_US


class Records(NamedTuple):
    """Single records: the index of the topic in MIRRORED, and the record's own time."""

    topic: Numbers
    at_us: Numbers

    def where(self, chosen: Numbers) -> "Records":
        return Records(self.topic[chosen], self.at_us[chosen])

    def by_bucket(self) -> dict[tuple[str, int], int]:
        keys, counts = np.unique(self.at_us // BUCKET_US * len(MIRRORED) + self.topic, return_counts=True)
        return {
            (MIRRORED[int(key) % len(MIRRORED)], int(key) // len(MIRRORED) * BUCKET_US): int(count)
            for key, count in zip(keys, counts, strict=True)
        }


def records_of(made: Requests) -> Records:
    """Records produced to mirrored topics; their times lie between the first and the greatest of their batch."""
    rows = made.partitions
    chosen = np.flatnonzero((rows["topic"] < len(MIRRORED)) & (rows["records"] > 0))
    counts = rows["records"][chosen]
    of = np.repeat(chosen, counts)
    place = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    width = rows["max_ts"][of] - rows["base_ts"][of]
    at_us = rows["base_ts"][of] + width * place // np.maximum(rows["records"][of] - 1, 1)
    return Records(rows["topic"][of], at_us // 1_000 * 1_000)


def batches(records: Records, until_us: int) -> Requests:
    """The batches as the mirror produces them, a little later, and before `until_us`."""
    order = np.lexsort((records.at_us, records.topic))
    topic, at_us = records.topic[order], records.at_us[order]
    batch = (at_us // _BATCH_US) * len(MIRRORED) + topic
    begins = np.flatnonzero(np.diff(batch, prepend=-1))
    counts = np.diff(np.append(begins, len(batch)))
    base_us = np.minimum.reduceat(at_us, begins) if len(begins) else at_us
    top_us = np.maximum.reduceat(at_us, begins) if len(begins) else at_us
    produced_us = np.minimum((base_us // _BATCH_US + 1) * _BATCH_US + _LAG_US, until_us - 1)
    return mirrored(produced_us, topic[begins], counts, (base_us, top_us))
