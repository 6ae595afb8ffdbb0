"""The table `change`: one row for each resource of a request, with its outcome."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from audit_pipeline.contract import contract
from broker_runtime.apis.request.call import Ending
from broker_runtime.apis.table import BROKER_APIS, COUNTED_APIS
from broker_runtime.observers.audit_log.admin_apis import ADMIN_APIS
from broker_runtime.observers.audit_log.changes.asked import API_KEYS
from broker_runtime.observers.audit_log.changes.group_ids import GROUP_APIS
from broker_runtime.storage.disk.filesystem import OsFileSystem
from broker_runtime.wire import versions
from tests.support.audit.audit import AuditBench
from tests.support.audit.changes import (
    CASES,
    DENIED,
    EXISTS,
    UNKNOWN_TOPIC,
    answered,
    fill,
    incremental,
    short,
    told,
    topic,
)


@pytest.fixture
def bench(tmp_path: Path) -> AuditBench:
    made = AuditBench(OsFileSystem(), tmp_path)
    fill(made.image)
    return made


def test_each_api_that_changes_something_and_that_brokers_serve_is_read() -> None:
    served = {api.key for api in BROKER_APIS}
    assert ADMIN_APIS & served == API_KEYS
    assert served >= GROUP_APIS


CREATED = {
    "topics": [
        {"name": name, "topic_id": None, "error_code": code, "error_message": None, "num_partitions": 1}
        | {"replication_factor": 1, "configs": []}
        for name, code in (("orders", EXISTS), ("new", 0))
    ]
}


def test_a_created_topic_and_one_that_exists_are_told_with_their_outcomes(bench: AuditBench, tmp_path: Path) -> None:
    request = {"topics": [topic("new", retention_ms="7"), topic("orders")], "timeout": 1, "validate_only": False}
    bench.change(versions.CREATE_TOPICS, 7, request, CREATED)

    rows = told(bench, tmp_path)
    assert [short(row) for row in rows] == [
        ("topic", "new", None, "create", None, "partitions=3, replicas=default", 0),
        ("topic", "new", "retention.ms", "set", None, "7", 0),
        ("topic", "orders", None, "create", None, "partitions=3, replicas=default", EXISTS),
    ]
    (first, *_), (sent,) = rows, told(bench, tmp_path, "request")
    assert sent["error_code"] == EXISTS
    assert [row["seq"] for row in rows] == [2, 3, 4]
    assert (first["api"], first["client_id"], first["principal"]) == ("CreateTopics", "admin", "User:ANONYMOUS")
    assert (first["topic"], first["validate_only"], first["ending"], first["further"]) == (
        "new",
        False,
        "answered",
        None,
    )
    assert first["connection_id"] == sent["connection_id"]
    assert first["correlation_id"] == sent["correlation_id"]
    assert first["ts"] == sent["ts"]


def test_old_and_new_values_of_a_topic_are_told(bench: AuditBench, tmp_path: Path) -> None:
    request = incremental(2, "orders", ("retention.ms", 0, "2000"), ("cleanup.policy", 1, None))
    bench.change(versions.INCREMENTAL_ALTER_CONFIGS, 1, request, answered((2, "orders", 0)))

    assert [short(row) for row in told(bench, tmp_path)] == [
        ("topic", "orders", "retention.ms", "set", "1000", "2000", 0),
        ("topic", "orders", "cleanup.policy", "delete", None, None, 0),
    ]


def test_secret_and_unknown_keys_have_no_values(bench: AuditBench, tmp_path: Path) -> None:
    secret = "it is a secret"
    keys = ["listener.name.x.ssl.keystore.password", "sasl.jaas.cofnig", "observer.audit-log.hash.key"]
    request = incremental(4, "1", *((key, 0, secret) for key in keys))
    bench.change(versions.INCREMENTAL_ALTER_CONFIGS, 1, request, answered((4, "1", 0)))
    request = {
        "deletions": [{"name": "bob", "mechanism": 1}],
        "upsertions": [
            {"name": "alice", "mechanism": 2, "iterations": 4096, "salt": b"s", "salted_password": b"secret"}
        ],
    }
    results = [{"user": "bob", "error_code": 91, "error_message": None}, {"user": "alice", "error_code": 0}]
    results[1]["error_message"] = None
    bench.change(versions.ALTER_USER_SCRAM_CREDENTIALS, 0, request, {"results": results})

    assert [short(row) for row in told(bench, tmp_path)] == [
        *(("broker", "1", key, "set", None, "sensitive", 0) for key in keys),
        ("user", "bob", "SCRAM-SHA-256", "delete", None, None, 91),
        ("user", "alice", "SCRAM-SHA-512", "set", None, "sensitive", 0),
    ]
    assert all(b"secret" not in path.read_bytes() for path in tmp_path.glob("*.spool"))


def test_keys_that_a_replaced_configuration_does_not_name_are_removed(bench: AuditBench, tmp_path: Path) -> None:
    configs = [{"name": "cleanup.policy", "value": "compact"}]
    request = {
        "resources": [{"resource_type": 2, "resource_name": "orders", "configs": configs}],
        "validate_only": True,
    }
    bench.change(versions.ALTER_CONFIGS, 2, request, answered((2, "orders", DENIED)))

    rows = told(bench, tmp_path)
    assert [short(row) for row in rows] == [
        ("topic", "orders", "cleanup.policy", "set", None, "compact", DENIED),
        ("topic", "orders", "retention.ms", "delete", "1000", None, DENIED),
    ]
    assert {row["validate_only"] for row in rows} == {True}


@pytest.mark.parametrize("case", CASES)
def test_what_a_request_changes_is_told_with_its_outcome(case: str, bench: AuditBench, tmp_path: Path) -> None:
    key, version, request, answer, expected = CASES[case]
    bench.change(key, version, request, answer)

    assert [short(row) for row in told(bench, tmp_path)] == expected
    (sent,) = told(bench, tmp_path, "request")
    assert sent["error_code"] == next(filter(None, codes_in(answer)), 0)


def codes_in(answer: Any) -> Iterator[int]:
    """Yield the error codes of an answer in its order."""
    if isinstance(answer, dict):
        yield answer.get("error_code", 0)
        for value in answer.values():
            yield from codes_in(value)
    elif isinstance(answer, list):
        for item in answer:
            yield from codes_in(item)


def test_groups_of_requests_that_handlers_read_are_told(bench: AuditBench, tmp_path: Path) -> None:
    groups = {"groups_names": ["old", "busy"]}
    results = {"results": [{"group_id": "old", "error_code": 0}, {"group_id": "busy", "error_code": 68}]}
    bench.change(versions.DELETE_GROUPS, 2, groups, results, is_framed=True)
    offsets = {"group_id": "old", "topics": [{"name": "orders", "partitions": [{"partition_index": 4}]}]}
    inner = [{"name": "orders", "partitions": [{"partition_index": 4, "error_code": UNKNOWN_TOPIC}]}]
    bench.change(versions.OFFSET_DELETE, 0, offsets, {"error_code": 0, "topics": inner}, is_framed=True)

    assert [short(row) for row in told(bench, tmp_path)] == [
        ("group", "old", None, "delete", None, None, 0),
        ("group", "busy", None, "delete", None, None, 68),
        ("group", "old", "orders-4", "delete offset", None, None, UNKNOWN_TOPIC),
    ]


def test_an_unanswered_request_has_no_outcome(bench: AuditBench, tmp_path: Path) -> None:
    request = {"topics": [topic("new")], "timeout": 1, "validate_only": False}
    bench.change(versions.CREATE_TOPICS, 7, request, ending=Ending.CANCELLED)

    (row,), (sent,) = told(bench, tmp_path), told(bench, tmp_path, "request")
    assert (row["error_code"], row["ending"]) == (None, "cancelled")
    assert sent["error_code"] is None


def test_an_error_of_the_whole_request_is_that_of_each_resource(bench: AuditBench, tmp_path: Path) -> None:
    request = {"timeout": 1, "topics": [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [1]}]}]}
    answer: dict[str, Any] = {"error_code": 41, "error_message": None, "responses": []}
    bench.change(versions.ALTER_PARTITION_REASSIGNMENTS, 0, request, answer)

    (row,) = told(bench, tmp_path)
    assert row["error_code"] == 41


def test_a_damaged_answer_leaves_outcomes_unknown(bench: AuditBench, tmp_path: Path) -> None:
    call = bench.change(versions.UNREGISTER_BROKER, 0, {"broker_id": 9})
    call.reply = (b"\0\0\0\5\0\0\0\5\0",)
    bench.log.record_call(call)

    assert [row["error_code"] for row in told(bench, tmp_path)] == [None, None]


def test_addresses_and_principals_are_hashed_as_those_of_clients_are(tmp_path: Path) -> None:
    bench = AuditBench(OsFileSystem(), tmp_path, hash_key="0123456789abcdef")
    for case in ("created ACLs", "client quotas"):
        key, version, request, answer, _ = CASES[case]
        bench.change(key, version, request, answer)

    rows = told(bench, tmp_path)
    assert len(rows) == 4
    text = repr([(row["resource_name"], row["key"], row["new_value"]) for row in rows])
    assert all(name not in text for name in ("alice", "bob", "10.0.0.1"))


@pytest.mark.parametrize("level", ["connections", "rollup", "full"])
def test_changes_are_told_at_each_level_but_off(level: str, tmp_path: Path) -> None:
    for each in (level, "off"):
        folder = tmp_path / each
        bench = AuditBench(OsFileSystem(), folder, level=each)
        assert (versions.CREATE_TOPICS in bench.log.noted_apis) == (each == level)
        if each == level:
            bench.change(versions.UNREGISTER_BROKER, 0, {"broker_id": 9}, {"error_code": 0, "error_message": None})
            assert len(told(bench, folder)) == 1


def test_every_column_has_a_value_of_its_type(bench: AuditBench, tmp_path: Path) -> None:
    for key, version, request, answer, _ in CASES.values():
        bench.change(key, version, request, answer)

    kinds = {"string": str, "bool": bool, "int16": int, "int32": int, "int64": int}
    for row in told(bench, tmp_path):
        for field in contract().tables["change"].fields:
            value = row[field.name]
            assert value is not None or field.nullable, field.name
            assert value is None or isinstance(value, kinds.get(field.type, object)), field.name
    assert {api.key for api in COUNTED_APIS} > {key for key, *_ in CASES.values()}


def test_a_request_that_could_not_be_noted_has_an_unknown_error(bench: AuditBench, tmp_path: Path) -> None:
    call = bench.change(versions.UNREGISTER_BROKER, 0, {"broker_id": 9}, {"error_code": 0, "error_message": None})
    del call.notes
    bench.log.record_call(call)

    assert [event["error_code"] for event in told(bench, tmp_path, "request")] == [0, None]
    assert len(told(bench, tmp_path)) == 1
