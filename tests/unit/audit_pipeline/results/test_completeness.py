from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.results.completeness import completeness
from tests.support.audit.spark_frames import facts, results

DAY, NEXT = "2026-11-20", "2026-11-21"


def test_what_is_wrong_with_each_day_of_each_broker(spark: SparkSession) -> None:
    def aside(reason: str, rows: int | None, day: str | None = DAY, broker_id: int | None = 1) -> dict[str, object]:
        return {"reason": reason, "rows": rows, "event_date": day, "cluster_id": "c1", "broker_id": broker_id}

    coverage = facts(
        spark,
        "coverage",
        *(
            {"event_date": day, "cluster_id": "c1", "broker_id": id, "events": 50}
            for day in (DAY, NEXT)
            for id in (1, 2)
        ),
        {"event_date": DAY, "cluster_id": "c1", "broker_id": 3, "events": 5, "gaps": 2, "missing": 7},
        {"event_date": DAY, "cluster_id": "c2", "broker_id": 1, "events": 5},
        {"event_date": NEXT, "cluster_id": "c1", "broker_id": 1, "holes": 4, "window_start": f"{NEXT} 20:00:00"},
        {"event_date": NEXT, "cluster_id": "c1", "broker_id": 4, "holes": 1},
    )
    quarantine = facts(
        spark,
        "quarantine",
        aside("corrupt", None),
        aside("version", 100),
        aside("clock", 3, broker_id=2),
        aside("duplicate", 1000, NEXT, 2),
        aside("future", 1, None),
        aside("corrupt", 1, DAY, None),
        aside("expired", 9, "2026-10-01", 9),
    )
    expected = results(
        spark,
        "completeness",
        (DAY, "c1", 1, 50, 0, 0, 0, 0, 2, 100, False),
        (DAY, "c1", 2, 50, 0, 0, 0, 0, 0, 3, False),
        (DAY, "c1", 3, 5, 2, 7, 0, 0, 0, 0, False),
        (DAY, "c2", 1, 5, 0, 0, 0, 0, 0, 0, True),
        (NEXT, "c1", 1, 50, 0, 0, 4, 0, 0, 0, False),
        (NEXT, "c1", 2, 50, 0, 0, 0, 1, 0, 0, True),
        (NEXT, "c1", 4, 0, 0, 0, 1, 0, 0, 0, False),
        ("2026-10-01", "c1", 9, 0, 0, 0, 0, 0, 1, 9, False),
    )
    assertDataFrameEqual(completeness(coverage, quarantine), expected)
