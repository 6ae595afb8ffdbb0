from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.results.traffic import traffic
from tests.support.audit.spark_frames import facts, results

DAY, NEXT = "2026-11-20", "2026-11-21"


def test_traffic_by_one_dimension_at_a_time(spark: SparkSession) -> None:
    client = {
        "event_date": DAY, "cluster_id": "c1", "listener": "EXTERNAL", "principal": "User:a", "client_id": "shop",
        "address_group": "10.0.0.0/24", "software_name": "librdkafka", "software_version": "2.3", "api": "Produce",
    }  # fmt: skip
    quiet = {**client, "client_id": None, "software_name": None, "software_version": None, "api": "Metadata"}
    usage = facts(
        spark,
        "usage",
        {**client, "window_start": f"{DAY} 10:00:00", "requests": 3, "errors": 1, "in_bytes": 300, "out_bytes": 30},
        {**client, "window_start": f"{DAY} 10:00:00", "requests": 2, "in_bytes": 200, "out_bytes": 20,
         "error_code": 0},
        {**client, "window_start": f"{DAY} 10:00:00", "topic": "orders", "requests": 4, "errors": 1, "in_bytes": 150,
         "records": 15},
        # Its request was set aside with the file that had it.
        {**client, "window_start": f"{DAY} 10:00:00", "principal": "(unknown)", "topic": "bills", "requests": 1,
         "out_bytes": 70},
        {**quiet, "window_start": f"{DAY} 10:00:00", "requests": 1, "in_bytes": 5, "out_bytes": 50},
        {**quiet, "window_start": f"{DAY} 10:00:00", "requests": 9, "in_bytes": 1, "is_follower": True},
        {**quiet, "window_start": f"{NEXT} 00:00:00", "event_date": NEXT, "cluster_id": "c2", "requests": 7,
         "software_version": "1.0"},
    )  # fmt: skip
    ten, midnight = f"{DAY} 10:00:00", f"{NEXT} 00:00:00"
    of_unknown, of_quiet = (0, 0, 0, 0, 0, 70, 0), (1, 0, 5, 50, 0, 0, 0)
    shop_and_unknown, all_three = (5, 1, 500, 50, 150, 70, 15), (6, 1, 505, 100, 150, 70, 15)
    expected = [
        (DAY, ten, "c1", dimension, name, False, *figures)
        for dimension, name, figures in (
            ("cluster", "", all_three),
            ("listener", "EXTERNAL", all_three),
            ("principal", "User:a", (6, 1, 505, 100, 150, 0, 15)),
            ("principal", "(unknown)", of_unknown),
            ("client_id", "shop", shop_and_unknown),
            ("client_id", "(none)", of_quiet),
            ("address_group", "10.0.0.0/24", all_three),
            ("software", "librdkafka 2.3", shop_and_unknown),
            ("software", "(none)", of_quiet),
            ("api", "Produce", shop_and_unknown),
            ("api", "Metadata", of_quiet),
            ("topic", "orders", (4, 1, 0, 0, 150, 0, 15)),
            ("topic", "bills", (1, 0, 0, 0, 0, 70, 0)),
        )
    ]
    names = {
        "cluster": "", "listener": "EXTERNAL", "principal": "User:a", "client_id": "(none)",
        "address_group": "10.0.0.0/24", "software": "(none)", "api": "Metadata",
    }  # fmt: skip
    expected += [(DAY, ten, "c1", kind, name, True, 9, 0, 1, 0, 0, 0, 0) for kind, name in names.items()]
    names["software"] = "1.0"
    expected += [(NEXT, midnight, "c2", kind, name, False, 7, 0, 0, 0, 0, 0, 0) for kind, name in names.items()]
    assertDataFrameEqual(traffic(usage), results(spark, "traffic", *expected))
