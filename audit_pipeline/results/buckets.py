"""The 4 percent buckets of latency histograms, for code with and without Spark. Pure.

Bucket b holds the times in microseconds up to 1.04 ^ b and above 1.04 ^ (b - 1); bucket 0 those up to 1.
"""

from itertools import count, takewhile
from math import ceil, log
from typing import Final

GAMMA: Final = 1.04
_LARGEST: Final = 2**63 - 1


def _power(bucket: int) -> int:
    """Return round(1.04 ^ bucket), exactly."""
    numerator: int = 26**bucket
    denominator: int = 25**bucket
    return (2 * numerator + denominator) // (2 * denominator)


BUCKET_US: Final = tuple(takewhile(lambda value: value <= _LARGEST, map(_power, count())))
"""The value that stands for the times of each bucket: the bucket's end, in whole microseconds.

It is a table because engines round powers differently.
"""


def end_us(bucket: int) -> int:
    """Return the end of a bucket, see BUCKET_US. An impossible bucket counts as the nearest existing one."""
    return BUCKET_US[min(max(bucket, 0), len(BUCKET_US) - 1)]


def bucket_with(us: int) -> int:
    """Return the bucket of a time in microseconds; that of times below 1 is 0."""
    return ceil(log(us) / log(GAMMA)) if us > 1 else 0
