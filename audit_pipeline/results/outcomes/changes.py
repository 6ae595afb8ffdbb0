"""The fact `changes`: who changed what, from where, when, and with what outcome. Pure."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.outcomes.failed import name_of_code

SUCCEEDED: Final = "succeeded"
UNKNOWN_OUTCOME: Final = "unknown"


def changes(change: DataFrame) -> DataFrame:
    """Return each change of events of any days, with its outcome in words."""
    dated = change.withColumn("event_date", F.to_date("ts"))
    return as_table(dated.withColumn("outcome", _outcome(F.col("error_code"), F.col("ending"))), "changes")


def _outcome(error_code: Column, ending: Column) -> Column:
    return (
        F.when(error_code == 0, SUCCEEDED)
        .when(error_code.isNotNull(), name_of_code(error_code))
        .when(ending != "answered", ending)
        .otherwise(UNKNOWN_OUTCOME)
    )
