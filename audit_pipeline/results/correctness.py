"""Compares records produced to topics with those that a mirror produced to their copies. Pure."""

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.patterns import beginning_of
from audit_pipeline.results.frames import as_table
from audit_pipeline.results.settings import Mirror

_SIDE = "struct<mirror:string,topic:string,is_copy:boolean,source_cluster:string,mirror_cluster:string>"
_TOPIC: Final = ("mirror", "topic", "source_cluster", "mirror_cluster")


def correctness(mirror_buckets: DataFrame, mirrors: Sequence[Mirror], completeness: DataFrame) -> DataFrame:
    sides = (side for mirror in mirrors for side in _sides(mirror))
    no_side = F.lit(None).cast(_SIDE)
    compared = mirror_buckets.select(
        "bucket",
        "records_placed",
        "records_possible",
        "records_ending",
        F.inline(F.array_compact(F.array(no_side, *sides))),
    )
    buckets = compared.groupBy(*_TOPIC, "bucket").agg(
        *_of_side("produced", ~F.col("is_copy")), *_of_side("mirrored", F.col("is_copy"))
    )
    topic = Window.partitionBy("mirror", "topic")
    last_copied = F.max(F.when(F.col("mirrored_ending") > 0, F.col("bucket"))).over(topic)
    is_produced_to = F.max(F.col("produced_max") > 0).over(topic)
    has_records = (F.col("produced_max") > 0) | (F.col("mirrored_max") > 0)
    judged = (
        buckets.withColumns({"last_copied": last_copied, "is_produced_to": is_produced_to})
        .where(F.col("is_produced_to") & has_records)
        .withColumns(
            {
                "status": _status(),
                "missing": F.greatest(F.col("produced_min") - F.col("mirrored_max"), F.lit(0)),
                "event_date": F.to_date("bucket"),
            }
        )
    )
    return as_table(_with_certainty(judged, completeness), "correctness")


def _sides(mirror: Mirror) -> tuple[Column, Column]:
    """Return the role of a topic's row for a mirror: source, copy, both (of different topics) or neither."""
    topic = F.col("topic")
    original = F.substring(topic, F.lit(len(mirror.prefix) + 1), F.length(topic))
    is_source = (F.col("cluster_id") == mirror.source_cluster) & _is_mirrored(topic, mirror)
    is_prefixed = topic.startswith(mirror.prefix) & (F.length(topic) > len(mirror.prefix))
    is_copy = (F.col("cluster_id") == mirror.mirror_cluster) & is_prefixed & _is_mirrored(original, mirror)
    return F.when(is_source, _side(mirror, topic, False)), F.when(is_copy, _side(mirror, original, True))


def _side(mirror: Mirror, topic: Column, is_copy: bool) -> Column:
    clusters = F.lit(mirror.source_cluster), F.lit(mirror.mirror_cluster)
    return F.struct(F.lit(mirror.name), topic, F.lit(is_copy), *clusters).cast(_SIDE)


def _is_mirrored(topic: Column, mirror: Mirror) -> Column:
    named = ((name, beginning_of(name)) for name in mirror.topics)
    names = (topic == name if beginning is None else topic.startswith(beginning) for name, beginning in named)
    is_named = reduce(Column.__or__, names) if mirror.topics else F.lit(True)
    return is_named & ~topic.startswith("_")


def _of_side(verb: str, is_side: Column) -> list[Column]:
    columns = {"min": "records_placed", "max": "records_possible", "ending": "records_ending"}
    return [
        F.sum(F.when(is_side, F.col(column)).otherwise(0)).alias(f"{verb}_{end}") for end, column in columns.items()
    ]


def _status() -> Column:
    is_fewer = F.col("mirrored_max") < F.col("produced_min")
    is_more = F.col("mirrored_min") > F.col("produced_max")
    is_passed = F.col("last_copied") > F.col("bucket")
    return (
        F.when(is_fewer & is_passed, F.lit("loss"))
        .when(is_fewer, F.lit("lagging"))
        .when(is_more, F.lit("surplus"))
        .otherwise(F.lit("complete"))
    )


def _with_certainty(judged: DataFrame, completeness: DataFrame) -> DataFrame:
    days = completeness.groupBy("event_date", "cluster_id").agg(F.bool_and("is_complete").alias("is_complete"))
    for side in ("source", "mirror"):
        of_side = days.withColumnsRenamed({"cluster_id": f"{side}_cluster", "is_complete": f"{side}_is_complete"})
        judged = judged.join(of_side, ["event_date", f"{side}_cluster"], how="left")
    certain = (F.coalesce(f"{side}_is_complete", F.lit(False)) for side in ("source", "mirror"))
    return judged.withColumn("is_certain", reduce(Column.__and__, certain))
