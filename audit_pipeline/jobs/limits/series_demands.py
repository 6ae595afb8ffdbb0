"""Runs the pure computation of demands in Spark's tasks: a series of seconds at a time. Shell."""

from typing import Any, Final

import numpy as np
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.recommend.demand import Demand, demand
from audit_pipeline.recommend.suggestion import LimitTarget
from audit_pipeline.results.arrivals.target_seconds import SERIES

_COLUMNS: Final = ("second", "attempts", "usual")

Place = tuple[str, int, str, str]
"""Cluster, broker, kind and target."""


def demands_of(series: DataFrame) -> list[tuple[Place, Demand]]:
    """Return the demand of each series of target_seconds, which also has covered_s.

    A task has one series at a time in memory: at most the seconds of a week.
    """
    ordered = F.sort_array(F.collect_list(F.struct(*_COLUMNS)))
    grouped = series.groupBy(*SERIES).agg(ordered.alias("rows"), F.max("covered_s").alias("covered_s"))
    arrays = (F.col(f"rows.{name}").alias(name) for name in _COLUMNS)
    return list(grouped.select(*SERIES, "covered_s", *arrays).rdd.map(_demand_of).collect())


def _demand_of(row: Row) -> tuple[Place, Demand]:
    place: Any = tuple(row[name] for name in SERIES)
    seconds, attempts, usual = (np.array(row[name], dtype=np.int64) for name in _COLUMNS)
    cluster_id, _, kind, target = place
    wait_s = LimitTarget(cluster_id, kind, target).wait_s
    return place, demand(seconds, attempts, usual, covered_s=row["covered_s"] or 0, wait_s=wait_s)
