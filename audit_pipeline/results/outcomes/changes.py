"""The fact `changes`: who changed what, from where, when, and with what outcome. Pure."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.outcomes.error_names import SUCCEEDED, UNKNOWN_OUTCOME
from audit_pipeline.results.outcomes.failed import name_of_code

_UNANSWERED: Final = ("cancelled", "hung up")
"""Endings of requests that may have made the change: the client had gone, or the broker stopped, before an answer."""


def changes(change: DataFrame) -> DataFrame:
    """Return each change of events of any days, with its outcome in words."""
    dated = change.withColumn("event_date", F.to_date("ts"))
    return as_table(dated.withColumn("outcome", _outcome(F.col("error_code"), F.col("ending"))), "changes")


def _outcome(error_code: Column, ending: Column) -> Column:
    return (
        F.when(error_code == 0, SUCCEEDED)
        .when(error_code.isNotNull(), name_of_code(error_code))
        .when(ending.isin(*_UNANSWERED), F.concat(F.lit(f"{UNKNOWN_OUTCOME}: "), ending))
        .when(ending != "answered", ending)
        .otherwise(UNKNOWN_OUTCOME)
    )
