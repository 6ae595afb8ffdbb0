"""The fact `changes`: who changed what, from where, when, and with what outcome. Pure."""

from itertools import chain
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.outcomes.error_names import ERROR_NAMES

SUCCEEDED: Final = "succeeded"
UNKNOWN_OUTCOME: Final = "unknown"


def changes(change: DataFrame) -> DataFrame:
    """Return each change of events of any days, with its outcome in words."""
    dated = change.withColumn("event_date", F.to_date("ts"))
    return as_table(dated.withColumn("outcome", _outcome(F.col("error_code"), F.col("ending"))), "changes")


def _outcome(error_code: Column, ending: Column) -> Column:
    literals = (
        F.lit(each).cast("smallint") if isinstance(each, int) else F.lit(each)
        for each in chain.from_iterable(ERROR_NAMES.items())
    )
    named = F.element_at(F.create_map(*literals), error_code)
    return (
        F.when(error_code == 0, SUCCEEDED)
        .when(error_code.isNotNull(), F.coalesce(named, F.concat(F.lit("error "), error_code.cast("string"))))
        .when(ending != "answered", ending)
        .otherwise(UNKNOWN_OUTCOME)
    )
