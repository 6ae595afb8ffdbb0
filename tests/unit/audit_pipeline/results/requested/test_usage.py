"""What is added up of single events, partitions and intervals, and which failures are found in it."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.contract import contract
from audit_pipeline.results.frames import EventFrames
from audit_pipeline.results.outcomes.error_names import ERROR_NAMES
from audit_pipeline.results.outcomes.failed import EXPECTED_ERRORS
from audit_pipeline.results.outcomes.failures import failures
from audit_pipeline.results.requested.addresses import address_group
from audit_pipeline.results.requested.latency_hist import latency_hist
from audit_pipeline.results.requested.measured import with_clients
from audit_pipeline.results.requested.minutes import minutes
from audit_pipeline.results.requested.usage import usage
from audit_pipeline.results.settings import APIS
from audit_pipeline.sources.unknown_clients import has_unknown_clients
from broker_runtime.errors import ErrorCode
from tests.support.audit.spark_frames import events, facts

DAY = "2026-11-20"
BOOT = {"cluster_id": "c1", "broker_id": 1, "boot_id": "b"}
SHOP = {"listener": "EXTERNAL", "principal": "User:a", "client_id": "shop", "client_ip": "10.0.0.1"}
ANSWERED = {**BOOT, **SHOP, "ending": "answered", "error_code": 0}


def produce(seq: int, time: str, total_us: int = 5, **more: object) -> dict[str, object]:
    row = {**ANSWERED, "seq": seq, "ts": f"{DAY} {time}", "api_key": 0, "api": "Produce", "total_us": total_us}
    return {**row, "request_bytes": 100, "response_bytes": 10, **more}


def fetch(seq: int, time: str, **more: object) -> dict[str, object]:
    row = {**ANSWERED, "seq": seq, "ts": f"{DAY} {time}", "api_key": 1, "api": "Fetch", "wait_us": 90, "total_us": 95}
    return {**row, "request_bytes": 1, "response_bytes": 2, **more}


def touched(seq: int, time: str, api_key: int, topic: str, size: int, **more: object) -> dict[str, object]:
    row = {**BOOT, "seq": seq, "ts": f"{DAY} {time}", "api_key": api_key, "topic": topic, "bytes": size}
    return {**row, **more}


TOLD = {**SHOP, "service_us": 5}


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> EventFrames:
    rows: dict[str, list[dict[str, object]]] = {table: [] for table in contract().tables}
    rows["request"] = [
        produce(1, "10:00:00"),
        produce(2, "10:09:59.9", client_ip="10.0.0.255"),
        produce(3, "10:01:00", error_code=6),
        produce(4, "10:01:00", ending="hung up"),
        produce(5, "10:10:00", error_code=None) if contract().minor > 1 else produce(5, "10:10:00"),
        fetch(6, "10:02:00"),
        fetch(7, "10:02:00", replica_id=2, client_id="broker"),
        produce(8, "10:03:00", api_key=11, api="JoinGroup", error_code=79),
    ]
    rows["partition"] = [
        touched(1, "10:00:00", 0, "orders", 60, records=3, **TOLD),
        touched(2, "10:09:59.9", 0, "orders", 40, records=2, **TOLD),
        touched(3, "10:01:00", 0, "orders", 0, error_code=6, **TOLD),
        touched(6, "10:02:00", 1, "orders", 50, **TOLD),
        touched(7, "10:02:00", 1, "orders", 70, **{**TOLD, "client_id": "broker", "replica_id": 2}),
        # Version 1.0: the first has its request here, the request of the other was set aside.
        touched(5, "10:10:00", 0, "bills", 7, records=1),
        touched(99, "10:10:00", 0, "bills", 9, records=1),
    ]
    rows["rollup"] = [
        {**BOOT, **SHOP, "ts": f"{DAY} 10:20:00", "api_key": 0, "api": "Produce", "requests": 4, "errors": 1}
        | {"request_bytes": 8, "latency": {3: 3, 40: 1}},
        {**BOOT, **SHOP, "ts": f"{DAY} 10:20:00", "api_key": 0, "api": "Produce", "topic": "orders", "requests": 4}
        | {"request_bytes": 6, "records": 5},
        {**BOOT, **SHOP, "ts": f"{DAY} 10:20:00", "api_key": 1, "api": "Fetch", "requests": 2, "latency": {9: 2}},
    ]
    frames = {table: events(spark, table, *rows[table]).withColumn("event_date", F.to_date("ts")) for table in rows}
    return with_clients(EventFrames(**{name: frames[name] for name in EventFrames._fields}))


def test_the_usage_of_ten_minutes(found: EventFrames) -> None:
    rows = [row for row in usage(found).collect() if not row["is_follower"]]
    assert {row["address_group"] for row in rows if row["principal"] == "User:a"} == {"10.0.0.0/24"}
    outcome = ("principal", "api", "topic", "error_code", "ending")
    sums = ("requests", "errors", "in_bytes", "out_bytes", "records")
    got = {
        (f"{row['window_start']:%H:%M}", *(row[name] for name in outcome)): (
            *(row[name] for name in sums),
            row["last_moved"] and f"{row['last_moved']:%H:%M:%S}",
        )
        for row in rows
    }
    unknown = got.pop(("10:10", "User:a", "Produce", None, None if contract().minor > 1 else 0, "answered"))
    assert unknown == (1, 0, 100, 10, None, None)
    assert got == {
        ("10:00", "User:a", "Produce", None, 0, "answered"): (2, 0, 200, 20, None, None),
        ("10:00", "User:a", "Produce", None, 6, "answered"): (1, 1, 100, 10, None, None),
        ("10:00", "User:a", "Produce", None, 0, "hung up"): (1, 1, 100, 10, None, None),
        ("10:00", "User:a", "JoinGroup", None, 79, "answered"): (1, 1, 100, 10, None, None),
        ("10:00", "User:a", "Fetch", None, 0, "answered"): (1, 0, 1, 2, None, None),
        ("10:00", "User:a", "Produce", "orders", 0, None): (2, 0, 100, 0, 5, "10:09:59"),
        ("10:00", "User:a", "Produce", "orders", 6, None): (1, 1, 0, 0, None, None),
        ("10:00", "User:a", "Fetch", "orders", 0, None): (1, 0, 0, 50, None, "10:02:00"),
        ("10:10", "User:a", "Produce", "bills", 0, None): (1, 0, 7, 0, 1, "10:10:00"),
        ("10:10", "(unknown)", "Produce", "bills", 0, None): (1, 0, 9, 0, 1, "10:10:00"),
        ("10:20", "User:a", "Produce", None, None, None): (4, 1, 8, 0, None, None),
        ("10:20", "User:a", "Produce", "orders", None, None): (4, 0, 6, 0, 5, "10:20:00"),
        ("10:20", "User:a", "Fetch", None, None, None): (2, 0, 0, 0, None, None),
    }


def test_histograms_of_requests_by_client_and_of_partitions_by_topic(found: EventFrames) -> None:
    got = {
        (f"{row['window_start']:%H:%M}", row["api"], row["client_id"], row["topic"]): (
            row["requests"],
            row["errors"],
            row["latency"],
        )
        for row in latency_hist(found).collect()
    }
    assert got == {
        ("10:00", "Produce", "shop", None): (4, 2, {42: 2}),
        ("10:00", "JoinGroup", "shop", None): (1, 1, {}),
        ("10:00", "Fetch", "shop", None): (1, 0, {42: 1}),
        ("10:00", "Produce", None, "orders"): (3, 1, {42: 2}),
        ("10:00", "Fetch", None, "orders"): (1, 0, {42: 1}),
        ("10:10", "Produce", "shop", None): (1, 0, {42: 1}),
        ("10:10", "Produce", None, "bills"): (1, 0, {42: 1}),
        ("10:20", "Produce", "shop", None): (4, 1, {3: 3, 40: 1}),
    }


def test_buckets_of_a_histogram_far_apart_and_impossible_ones(spark: SparkSession, found: EventFrames) -> None:
    wide = {-1: 1, 0: 1, 15: 1, 16: 1, 31: 1, 32: 1, 600: 1, 32_767: 1}
    row = {**BOOT, **SHOP, "ts": f"{DAY} 10:20:00", "api": "Produce", "requests": 8, "latency": wide}
    rollup = events(spark, "rollup", row, row).withColumn("event_date", F.to_date("ts"))
    none = {"request": found.request.limit(0), "partition": found.partition.limit(0)}
    histogram = latency_hist(found._replace(rollup=rollup, **none))
    (made,) = histogram.select("latency", F.map_keys("latency").alias("buckets")).collect()
    assert made["buckets"] == sorted(wide)
    assert made["latency"] == dict.fromkeys(wide, 2)


def test_minutes_have_requests_only(found: EventFrames) -> None:
    got = {
        (f"{row['minute']:%H:%M}", row["api"], row["is_follower"]): (row["requests"], row["errors"], row["in_bytes"])
        for row in minutes(found).collect()
    }
    assert got == {
        ("10:00", "Produce", False): (1, 0, 100),
        ("10:01", "Produce", False): (2, 2, 200),
        ("10:02", "Fetch", False): (1, 0, 1),
        ("10:02", "Fetch", True): (1, 0, 1),
        ("10:03", "JoinGroup", False): (1, 1, 100),
        ("10:09", "Produce", False): (1, 0, 100),
        ("10:10", "Produce", False): (1, 0, 100),
        ("10:20", "Produce", False): (4, 1, 8),
        ("10:20", "Fetch", False): (2, 0, 0),
    }


def test_clients_are_looked_for_only_where_a_partition_does_not_tell_its_client(spark: SparkSession) -> None:
    assert not has_unknown_clients(events(spark, "partition", {**BOOT, **SHOP}))
    assert has_unknown_clients(events(spark, "partition", {**BOOT, **SHOP}, BOOT))


def test_a_failure_counts_once_with_its_topic_and_steps_of_the_protocol_are_told_apart(spark: SparkSession) -> None:
    shop = {"event_date": DAY, "cluster_id": "c1", "principal": "User:a", "client_id": "shop"}
    group = {**shop, "api": "JoinGroup", "ending": "answered"}
    rows = facts(
        spark,
        "usage",
        {**shop, "api": "Produce", "error_code": 6, "ending": "answered", "errors": 2},
        {**shop, "api": "Produce", "error_code": 6, "topic": "orders", "errors": 3},
        {**shop, "api": "Produce", "error_code": 0, "topic": "orders", "errors": 0, "requests": 9},
        # Another client has this error of the request alone.
        {**shop, "client_id": None, "api": "Produce", "error_code": 6, "ending": "answered", "errors": 1},
        {**group, "error_code": 79, "errors": 4},
        {**group, "error_code": 0, "ending": "hung up", "errors": 1},
        {**group, "api": "OffsetCommit", "error_code": 27, "errors": 1},
        {**group, "api": "Fetch", "error_code": 0, "ending": "cancelled", "errors": 5},
        {**group, "error_code": 9999, "errors": 1},
        {**shop, "api": "Produce", "error_code": None, "ending": None, "errors": 7},
    )
    got = {
        (row["api"], row["error"], row["error_code"], row["client_id"], row["topic"]): (
            row["failures"],
            row["is_expected"],
        )
        for row in failures(rows).collect()
    }
    assert got == {
        ("Produce", "NOT_LEADER_OR_FOLLOWER", 6, "shop", "orders"): (3, False),
        ("Produce", "NOT_LEADER_OR_FOLLOWER", 6, None, None): (1, False),
        ("JoinGroup", "MEMBER_ID_REQUIRED", 79, "shop", None): (4, True),
        ("JoinGroup", "hung up", None, "shop", None): (1, False),
        ("OffsetCommit", "REBALANCE_IN_PROGRESS", 27, "shop", None): (1, False),
        ("Fetch", "cancelled", None, "shop", None): (5, True),
        ("JoinGroup", "error 9999", 9999, "shop", None): (1, False),
        ("Produce", "(unknown)", None, "shop", None): (7, False),
    }


def test_error_codes_are_those_of_the_broker() -> None:
    assert {code: ErrorCode(code).name for code in ERROR_NAMES} == ERROR_NAMES
    assert set(ERROR_NAMES) == {int(code) for code in ErrorCode if code != 0}
    for step in EXPECTED_ERRORS:
        assert step.error in {*ERROR_NAMES.values(), "cancelled"}
        assert set(step.apis) <= set(APIS)


def test_networks_of_addresses(spark: SparkSession) -> None:
    groups = {
        "10.4.1.17": "10.4.1.0/24",
        "2001:db8::1": "2001:db8:0:0::/64",
        "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64",
        "::1": "0:0:0:0::/64",
        "fe80::": "fe80:0:0:0::/64",
        "3f2a9c": "3f2a9c",
        "(unknown)": "(unknown)",
    }
    frame = spark.createDataFrame([(address,) for address in groups], "address string")
    found = frame.select("address", address_group(F.col("address")).alias("network")).collect()
    assert {row["address"]: row["network"] for row in found} == groups
