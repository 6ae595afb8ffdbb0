"""The starts of windows, bins and hours. Pure."""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it


def begun(ts: Column, seconds: int) -> Column:
    """Return the last time up to `ts` that is a multiple of `seconds` since 1970."""
    us = F.unix_micros(ts)
    return F.timestamp_micros(us - F.pmod(us, F.lit(seconds * 1_000_000)))


def after(ts: Column, seconds: int) -> Column:
    """Return the time `seconds` after `ts`; earlier if `seconds` is negative."""
    return F.timestamp_micros(F.unix_micros(ts) + F.lit(seconds * 1_000_000))
