"""The buckets of 4 percent that histograms of times have, for who has Spark and who has not. Pure.

Bucket b holds the times in microseconds up to 1.04 ^ b and above 1.04 ^ (b - 1); bucket 0 those up to 1.
"""

from itertools import count, takewhile
from typing import Final

GAMMA: Final = 1.04
_LARGEST: Final = 2**63 - 1


def _power(bucket: int) -> int:
    """round(1.04 ^ bucket), exactly."""
    numerator: int = 26**bucket
    denominator: int = 25**bucket
    return (2 * numerator + denominator) // (2 * denominator)


BUCKET_US: Final = tuple(takewhile(lambda value: value <= _LARGEST, map(_power, count())))
"""What stands for the times of each bucket: where it ends, in whole microseconds. Engines round powers differently."""


def end_us(bucket: int) -> int:
    """See BUCKET_US. A bucket that no broker can have counted is taken for the nearest that there is."""
    return BUCKET_US[min(max(bucket, 0), len(BUCKET_US) - 1)]
