"""Two independent readers of a spool see the same events, and users see lines."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit_pipeline.ingest.tail import SpoolTail, as_line
from audit_pipeline.spool.events import events_of
from audit_pipeline.spool.spool import SpoolContent, read_spool
from audit_pipeline.spool.tables import tables_of
from broker_runtime.apis.request.call import ClientSoftware, Ending
from broker_runtime.network.connection.connection_notices import ConnectionNotice, NoticeKind
from broker_runtime.observers.audit_log import layout
from broker_runtime.observers.audit_log.block import EventBlock
from broker_runtime.observers.surroundings import HostedPartition
from broker_runtime.storage.disk.filesystem import OsFileSystem, read_file
from connection_limits.settings import LimitReference
from kafka_bytes.printable import printable
from tests.support.audit.audit import AuditBench
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.requests.calls import NotedConnection

FOLDER = Path("/audit")
TIMES = st.integers(-1, 2**41) | st.integers(-(2**63), 2**63 - 1)
"""Producers may send any time."""
INT64 = st.integers(-1, 2**60)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
PARTITION = st.tuples(
    NAMES, st.integers(0, 9999), st.integers(0, 2**40), st.integers(-1, 2**31 - 1), INT64, INT64,
    TIMES, TIMES, st.integers(-1, 120),
)  # fmt: skip
REQUEST = st.fixed_dictionaries(
    {
        "api": st.sampled_from([0, 1, 3, 19]),
        "client_id": st.none() | NAMES,
        "ending": st.sampled_from(Ending),
        "partitions": st.lists(PARTITION, max_size=4),
        "correlation_id": st.integers(-(2**31), 2**31 - 1),
        "request_bytes": st.integers(0, 2**31),
        "error": st.integers(-1, 120),
        "refusal": st.sampled_from(["unsupported-version", "acks-0-failed"]),
        "acks": st.sampled_from([-1, 0, 1]),
        "replica_id": st.integers(-1, 1000),
    }
)


def both(content: SpoolContent) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Rows by table, as the two readers have them."""
    one_by_one: dict[str, list[Any]] = {}
    for block in content.blocks:
        for table, event in events_of(content.header, block):
            one_by_one.setdefault(table, []).append(event)
    return one_by_one, {name: table.to_pylist() for name, table in tables_of(content).items()}


@given(requests=st.lists(REQUEST, max_size=12), software=st.none() | st.builds(ClientSoftware, NAMES, NAMES))
def test_what_was_recorded_is_read_back_in_both_ways(
    requests: list[dict[str, Any]], software: ClientSoftware | None
) -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER)
    bench.connection.state = software
    for number, request in enumerate(requests):
        handler_sets = {0: "acks", 1: "replica_id"}.get(request["api"])
        bench.request(
            **{
                name: value
                for name, value in request.items()
                if name not in ("acks", "replica_id") or name == handler_sets
            }
        )
        bench.timers.advance(0.03)
        if number % 3 == 0:
            bench.connect(connection_id=number)
    bench.log.inventory(HostedPartition("orders", 1, 2, 3, 4, False))
    bench.settle()

    one_by_one, columns = both(read_spool(read_file(fs, FOLDER / "0001-00000001.spool")))

    assert one_by_one == columns
    for event, request in zip(one_by_one.get("request", ()), requests, strict=True):
        assert event["client_id"] == request["client_id"]
        assert event["correlation_id"] == request["correlation_id"]
        assert event["request_bytes"] == request["request_bytes"]
        assert event["ending"] == request["ending"].value
        assert event["acks"] == (request["acks"] if request["api"] == 0 else None)
        assert event["software_name"] == (software.name if software else None)
    told = [(event["topic"], event["partition"], event["bytes"]) for event in one_by_one.get("partition", ())]
    assert told == [facts[:3] for request in requests for facts in request["partitions"]]


@pytest.mark.parametrize(("values", "brokers"), [(("1,2",), "1,2"), ((), None), (("1,2", True, "later"), "1,2")])
def test_a_spool_of_another_minor_version_has_fewer_values_or_more(
    values: tuple[object, ...], brokers: str | None
) -> None:
    block = EventBlock(1, 0, 0.0)
    block.add("inventory", 1, 5, "orders", 1, 2, 3, 4, False, *values)
    header = layout.packed_block("header", 1, "cluster", 7, "0001", 1, 1, 0, {})
    spool = layout.MAGIC + layout.packed_reserved(1) + header + block.packed()
    one_by_one, columns = both(read_spool(spool))
    assert one_by_one == columns
    assert [event["registered_brokers"] for event in columns["inventory"]] == [brokers]


def test_error_codes_that_nobody_looked_for_and_groups_are_read_back_in_both_ways() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER)
    bench.request(12, group_id="readers")
    bench.request(12, group_id=None)
    bench.request(55, error=0)
    bench.request(55, error=41)
    bench.request(3, ending=Ending.CANCELLED)
    bench.request(3, fields={"topics": [{"error_code": 0}] * 60})
    bench.request(3, fields={"topics": [{"error_code": 3}] * 60})
    bench.settle()

    one_by_one, columns = both(read_spool(read_file(fs, FOLDER / "0001-00000001.spool")))

    assert one_by_one == columns
    assert [event["group_id"] for event in columns["request"]] == ["readers", *[None] * 6]
    assert [event["error_code"] for event in columns["request"]] == [0, 0, None, 41, None, None, 3]


def test_a_table_of_a_later_minor_version_is_left_out() -> None:
    block = EventBlock(1, 0, 0.0)
    block.add("inventory", 1, 5, "orders", 1, 2, 3, 4, False)
    block.add("moon", 2, 6, "full")
    header = layout.packed_block("header", 1, "cluster", 7, "0001", 1, 1, 0, {})
    one_by_one, columns = both(read_spool(layout.MAGIC + layout.packed_reserved(2) + header + block.packed()))
    assert one_by_one == columns
    assert columns.keys() == {"inventory"}


@given(requests=st.lists(REQUEST, min_size=1, max_size=12))
def test_rollups_add_up_to_the_requests(requests: list[dict[str, Any]]) -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER, level="rollup")
    rolled = [request for request in requests if request["api"] != 19]
    for request in requests:
        bench.request(**request)
    bench.log.close()

    content = read_spool(read_file(fs, FOLDER / "0001-00000001.spool"))
    one_by_one, columns = both(content)

    # Arrow returns a map as pairs.
    for row in columns.get("rollup", ()):
        row["latency"] = dict(row["latency"])
    assert one_by_one == columns
    totals = [row for row in one_by_one.get("rollup", ()) if row["topic"] is None]
    assert sum(row["requests"] for row in totals) == len(rolled)
    assert sum(row["request_bytes"] for row in totals) == sum(request["request_bytes"] for request in rolled)
    assert sum(count for row in totals for count in row["latency"].values()) == len(rolled)
    assert {(row["first_seq"], row["seq"]) for row in totals} <= {(len(requests) - len(rolled) + 1, len(requests))}


def test_an_interval_counts_records_that_were_produced_and_no_unknown_error() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER, level="rollup")
    bench.request(0, [("orders", 0, 100, 7, 0, 6, 1, 1, 0)])
    bench.request(1, [("orders", 0, 100, 5, 0, -1, -1, -1, 0)])
    bench.request(3, fields={"topics": [{"error_code": 0}] * 60})
    bench.log.close()
    one_by_one, _ = both(read_spool(read_file(fs, FOLDER / "0001-00000001.spool")))
    rows = {(row["api"], row["topic"]): (row["records"], row["errors"]) for row in one_by_one["rollup"]}
    assert rows["Produce", "orders"] == (7, 0)
    assert rows["Fetch", "orders"] == (0, 0)
    assert rows["Metadata", None] == (0, 0)


def test_the_tail_shows_what_has_come_since_the_last_time(tmp_path: Path) -> None:
    bench = AuditBench(OsFileSystem(), tmp_path, segment_ms="1000")
    bench.request()
    bench.settle()
    tail = SpoolTail([tmp_path], from_start=False)
    assert list(tail.blocks()) == []
    bench.produce("orders", 3)
    bench.timers.advance(2)
    bench.connect(NoticeKind.CLOSED)
    bench.settle()
    lines = [as_line(table, event) for header, block in tail.blocks() for table, event in events_of(header, block)]
    assert [line.split(" ", 4)[4] for line in lines] == [
        "request Produce v9, answered, User:ANONYMOUS test from 127.0.0.1:50000 on PLAINTEXT, 100 B in, 50 B out, "
        "1.000 ms",
        "partition orders-3: 10 records, 1000 B at 40",
        "connection closed, User:ANONYMOUS test from 127.0.0.1:50000 on PLAINTEXT",
    ]
    assert list(tail.blocks()) == []


def test_hashed_clients_cannot_be_told_but_apart() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER, hash_key="0123456789abcdef")
    other = NotedConnection()
    other.id, other.peer = 2, ("10.0.0.9", 1)
    bench.request()
    bench.request(connection=other)
    bench.log.record_connection(
        ConnectionNotice(
            NoticeKind.REFUSED,
            "PLAINTEXT",
            "10.0.0.9",
            5,
            limit="connection_creation_rate",
            held_by=LimitReference("connection_creation_rate", 20, "ip=10.0.0.9"),
            listener_rate=200,
        )
    )
    bench.settle()
    content = read_spool(read_file(fs, FOLDER / "0001-00000001.spool"))
    one_by_one, _ = both(content)
    first, second = one_by_one["request"]
    (refused,) = one_by_one["connection"]
    assert len({first["client_ip"], second["client_ip"], "127.0.0.1", "10.0.0.9"}) == 4
    assert refused["client_ip"] == second["client_ip"]
    assert refused["client_port"] is None
    assert refused["reason"] == "connection_creation_rate"
    assert refused["limit_entity"] == f"ip={refused['client_ip']}"
    assert [refused[name] for name in ("limit_quota", "limit_key", "limit_value", "listener_rate")] == [
        None,
        "connection_creation_rate",
        20,
        200,
    ]
    assert first["principal"] == second["principal"] != "User:ANONYMOUS"


def test_what_is_excluded_has_no_number() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER, exclude_listeners="INTERNAL", exclude_topics="secret,__*")
    inside = NotedConnection()
    inside.listener = "INTERNAL"
    inside.id = 2
    bench.request(connection=inside)
    bench.produce("secret")
    bench.produce("__audit")
    bench.request(0, [("secret", 0, 1, 1, 0, 0, 1, 1, 0), ("orders", 0, 1, 1, 0, 0, 1, 1, 0)])
    bench.settle()
    one_by_one, _ = both(read_spool(read_file(fs, FOLDER / "0001-00000001.spool")))
    assert [event["seq"] for event in one_by_one["request"]] == [1]
    assert [event["topic"] for event in one_by_one["partition"]] == ["orders"]


@pytest.mark.parametrize(("level", "requests"), [("off", 0), ("connections", 1), ("full", 2)])
def test_each_level_records_its_kinds_of_events(level: str, requests: int) -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER, level=level)
    bench.connect()
    bench.request(19)
    bench.request(3)
    bench.settle()
    one_by_one, _ = both(read_spool(read_file(fs, FOLDER / "0001-00000001.spool")))
    assert len(one_by_one.get("request", ())) == requests
    assert len(one_by_one.get("connection", ())) == (level != "off")


def test_the_tail_continues_after_a_damaged_block_and_logs_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bench = AuditBench(OsFileSystem(), tmp_path)
    for _ in range(3):
        bench.request()
        bench.settle()
    path = tmp_path / "0001-00000001.spool"
    data = bytearray(path.read_bytes())
    data[data.index(b"SGAB", data.index(b"SGAB", 30) + 4) + 30] ^= 1
    path.write_bytes(data)
    tail = SpoolTail([tmp_path], from_start=True)
    assert [block.first_seq for _, block in tail.blocks()] == [1, 3]
    assert "damaged" in caplog.text


def test_what_clients_call_themselves_forges_no_line() -> None:
    assert printable("a\nb\x1b[2Jc\u202ed é") == "a\\nb\\x1b[2Jc\\u202ed é"


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (
            0,
            "CreatePartitions: set topic orders partitions, to 5, succeeded, User:ANONYMOUS admin from 127.0.0.1:50000",
        ),
        (
            37,
            "CreatePartitions: set topic orders partitions, to 5, error 37, User:ANONYMOUS admin from 127.0.0.1:50000",
        ),
    ],
)
def test_a_line_of_a_change_says_who_changed_what(code: int, line: str, tmp_path: Path) -> None:
    bench = AuditBench(OsFileSystem(), tmp_path)
    topic = {"name": "orders", "count": 5, "assignments": None}
    result = {"name": "orders", "error_code": code, "error_message": None}
    bench.change(37, 3, {"topics": [topic], "timeout": 1, "validate_only": False}, {"results": [result]})
    bench.settle()
    tail = SpoolTail([tmp_path], from_start=True)
    lines = [as_line(*event) for header, block in tail.blocks() for event in events_of(header, block)]
    assert line in lines[1]
