"""The fact `changes`: each change with its outcome in words."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from audit_pipeline.results.outcomes.changes import changes
from tests.support.audit.spark_frames import events

AT = "2026-11-20 23:59:59.999999"


@pytest.mark.parametrize(
    ("error_code", "ending", "outcome"),
    [
        (0, "answered", "succeeded"),
        (36, "answered", "TOPIC_ALREADY_EXISTS"),
        (-1, "answered", "UNKNOWN_SERVER_ERROR"),
        (9999, "answered", "error 9999"),
        (None, "answered", "unknown"),
        (None, "cancelled", "unknown: cancelled"),
        (None, "hung up", "unknown: hung up"),
        (None, "refused", "refused"),
    ],
)
def test_an_outcome_is_success_or_the_name_of_the_error(
    error_code: int | None, ending: str, outcome: str, spark: SparkSession
) -> None:
    row: dict[str, Any] = {
        "ts": AT,
        "seq": 7,
        "cluster_id": "c1",
        "broker_id": 2,
        "boot_id": "a",
        "api": "CreateTopics",
    }
    row |= {"resource_type": "topic", "resource_name": "orders", "error_code": error_code, "ending": ending}
    (found,) = changes(events(spark, "change", row)).collect()

    assert (found["outcome"], found["error_code"]) == (outcome, error_code)
    assert (found["event_date"].isoformat(), found["seq"], found["resource_name"]) == ("2026-11-20", 7, "orders")
    assert (found["key"], found["further"]) == (None, None)
