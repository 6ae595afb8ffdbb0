"""The built-in observers with sample messages: their lines in /metrics and in JSON."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from broker_runtime.errors import ConfigError, ErrorCode
from broker_runtime.exposition import render
from broker_runtime.network.connection.connection_notices import ConnectionNotice, NoticeKind
from broker_runtime.observers.base import ConnectionObserver, MeasuredObserver, NoResponse, Observer, UnansweredObserver
from broker_runtime.observers.json_log import JsonLog
from broker_runtime.observers.prometheus import PrometheusObserver
from broker_runtime.observers.samples import sample_request, sample_response
from broker_runtime.observers.surroundings import BrokerFacts
from broker_runtime.wire.versions import FETCH, METADATA, PRODUCE
from kafka_bytes.batches import encode_batch

BATCH = encode_batch([(None, b"v"), (None, b"w")], 1_000)
OK, UNKNOWN_TOPIC = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def produced(*topics: str) -> dict[str, Any]:
    return {
        "transactional_id": None,
        "acks": 1,
        "timeout": 1000,
        "topic_data": [{"name": name, "partition_data": [{"index": 0, "records": BATCH}]} for name in topics],
    }


def taken(**codes: ErrorCode) -> dict[str, Any]:
    return {
        "responses": [
            {
                "name": name,
                "partition_responses": [{"index": 0, "error_code": code, "base_offset": 0, "record_errors": ()}],
            }
            for name, code in codes.items()
        ]
    }


def tell(observer: Any, api_key: int, version: int, fields: Mapping[str, Any], cid: str = "1-1", **of: Any) -> None:
    with sample_request(api_key, version, fields, **of) as struct:
        observer.record_request(struct, "192.0.2.7", "User:ANONYMOUS", api_key, version, cid)


def answer(observer: Any, api_key: int, version: int, fields: Mapping[str, Any], cid: str = "1-1", **of: Any) -> None:
    with sample_response(api_key, version, fields, **of) as struct:
        observer.record_response(struct, version, cid)


def measured(**config: str) -> tuple[PrometheusObserver, Callable[[str], list[str]]]:
    observer = PrometheusObserver()
    observer.configure({key.replace("_", "."): text for key, text in config.items()})

    def series(part: str) -> list[str]:
        lines = render(observer.collect()).decode().splitlines()
        return [line.removeprefix("sluicegate_observed_") for line in lines if part in line and line[0] != "#"]

    return observer, series


ALL_TOPICS = {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}


def test_requests_whose_end_is_never_told_take_no_place_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_runtime.observers.prometheus._OPEN_MAX", 2)
    observer, series = measured(labels="topic")
    for number in range(3):
        tell(observer, PRODUCE, 9, produced("orders"), f"1-{number}")
    for number in range(3):
        answer(observer, PRODUCE, 9, taken(orders=OK), f"1-{number}")
    assert series("topic_records_total") == ['topic_records_total{direction="in",topic="orders"} 4.0']


def test_requests_are_counted_by_the_labels_that_are_asked_for() -> None:
    observer, series = measured(labels="api,listener,principal,client_id")
    tell(observer, METADATA, 12, ALL_TOPICS, client_id="shop")
    assert series("requests_total") == [
        'requests_total{api="Metadata",listener="PLAINTEXT",principal="User:ANONYMOUS",client_id="shop"} 1.0'
    ]
    observer, series = measured()
    tell(observer, METADATA, 12, ALL_TOPICS)
    assert series("requests_total") == ['requests_total{api="Metadata"} 1.0']


def test_latency_is_a_histogram() -> None:
    observer, series = measured()
    tell(observer, METADATA, 12, ALL_TOPICS)
    content: dict[str, Any] = {"brokers": [], "cluster_id": None, "controller_id": 1, "topics": []}
    answer(observer, METADATA, 12, content, duration_s=0.003)
    assert 'request_seconds_bucket{api="Metadata",le="0.0025"} 0.0' in series("seconds_bucket")
    assert 'request_seconds_bucket{api="Metadata",le="0.005"} 1.0' in series("seconds_bucket")
    assert series("seconds_sum") == ['request_seconds_sum{api="Metadata"} 0.003']


def test_accepted_records_are_counted_by_topic() -> None:
    observer, series = measured(labels="topic")
    tell(observer, PRODUCE, 9, produced("orders", "nowhere"))
    assert series("topic_") == []
    answer(observer, PRODUCE, 9, taken(orders=OK, nowhere=UNKNOWN_TOPIC))
    assert series("topic_bytes") == [
        f'topic_bytes_total{{direction="in",topic="orders"}} {float(len(BATCH))}',
        'topic_bytes_total{direction="out",topic="orders"} 0.0',
    ]
    assert series("topic_records") == ['topic_records_total{direction="in",topic="orders"} 2.0']


@pytest.mark.parametrize(("why", "counts"), [(NoResponse.NOT_WANTED, 1), (NoResponse.REFUSED, 0)])
def test_acks_0_has_no_response_and_counts_all_the_same(why: NoResponse, counts: int) -> None:
    observer, series = measured(labels="topic")
    tell(observer, PRODUCE, 9, produced("orders"))
    observer.record_no_response(why, 9, "1-1")
    assert len(series("topic_records")) == counts
    assert series("unanswered") == [f'unanswered_total{{why="{why.value}"}} 1.0']


def test_what_is_produced_by_id_counts_by_the_topics_name() -> None:
    observer, series = measured(labels="topic")
    topics = {UUID(int=9): "orders"}
    asked, said = produced("orders"), taken(orders=OK)
    for topic in (*asked["topic_data"], *said["responses"]):
        del topic["name"]
        topic["topic_id"] = UUID(int=9)
    tell(observer, PRODUCE, 13, asked, topics=topics)
    answer(observer, PRODUCE, 13, said, topics=topics)
    assert series("topic_records") == ['topic_records_total{direction="in",topic="orders"} 2.0']


def test_what_is_fetched_counts_by_topic() -> None:
    observer, series = measured(labels="topic")
    part = {"partition_index": 0, "error_code": OK, "high_watermark": 2, "records": BATCH, "aborted_transactions": None}
    answer(
        observer,
        FETCH,
        12,
        {"error_code": OK, "session_id": 0, "responses": [{"topic": "orders", "partitions": [part]}]},
    )
    answer(
        observer,
        FETCH,
        15,
        {"error_code": OK, "session_id": 0, "responses": [{"topic_id": UUID(int=9), "partitions": [part]}]},
    )
    assert f'topic_bytes_total{{direction="out",topic="orders"}} {float(len(BATCH))}' in series("topic_bytes")
    assert f'topic_bytes_total{{direction="out",topic="unknown"}} {float(len(BATCH))}' in series("topic_bytes")


def test_a_label_has_a_greatest_number_of_values() -> None:
    observer, series = measured(labels="client_id,topic", label_values_max="2")
    for number in range(5):
        tell(observer, PRODUCE, 9, produced(f"t{number}"), client_id=f"c{number}")
        answer(observer, PRODUCE, 9, taken(**{f"t{number}": OK}), client_id=f"c{number}")
    assert series("requests_total") == [
        'requests_total{client_id="c0"} 1.0',
        'requests_total{client_id="c1"} 1.0',
        'requests_total{client_id="other"} 3.0',
    ]
    assert 'topic_records_total{direction="in",client_id="other",topic="other"} 6.0' in series("topic_records")


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"labels": "api,topics"}, "labels: topics is not one of api, listener, principal, client_id, topic"),
        ({"label.values.max": "0"}, "label.values.max: 0 must be a whole number of 1 or more"),
        ({"label": "api"}, "label is not a key of this observer; its keys are label.values.max, labels"),
    ],
)
def test_a_wrong_configuration_is_refused_with_a_sentence(config: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        PrometheusObserver().configure(config)


def lines(path: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert all(line.pop("time").startswith("20") for line in found)
    return found


def test_json_log_writes_a_line_for_each_request_and_connection(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    log = JsonLog()
    log.configure({"path": str(path)})
    tell(log, PRODUCE, 9, produced("orders"), "1-1", client_id="shop")
    answer(log, PRODUCE, 9, taken(orders=UNKNOWN_TOPIC), "1-1", duration_s=0.002)
    tell(log, PRODUCE, 9, produced("orders"), "1-2")
    log.record_no_response(NoResponse.CANCELLED, 9, "1-2")
    log.record_connection(ConnectionNotice(NoticeKind.REFUSED, "EXTERNAL", "192.0.2.7", 5, limit="max.connections"))
    log.close(10)
    first, second, third = lines(path)
    assert first == {
        "event": "request",
        "api": "Produce",
        "version": 9,
        "id": "1-1",
        "listener": "PLAINTEXT",
        "client_address": "192.0.2.7",
        "principal": "User:ANONYMOUS",
        "client_id": "shop",
        "client_software": None,
        "request_bytes": first["request_bytes"],
        "outcome": "answered",
        "error_code": UNKNOWN_TOPIC,
        "response_bytes": first["response_bytes"],
        "duration_ms": 2.0,
    }
    assert (second["id"], second["outcome"]) == ("1-2", "cancelled")
    assert third == {
        "event": "connection refused",
        "listener": "EXTERNAL",
        "client_address": "192.0.2.7",
        "client_port": 5,
        "limit": "max.connections",
    }


def test_json_log_names_the_broker_in_each_line_as_several_may_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    for node_id in (7, 8):
        log = JsonLog()
        log.attach(cast(BrokerFacts, SimpleNamespace(node_id=node_id)))
        log.configure({"path": str(path)})
        log.record_connection(ConnectionNotice(NoticeKind.ACCEPTED, "EXTERNAL", "192.0.2.7", 50_000, 1))
        log.close(10)
    assert [json.loads(line)["broker"] for line in path.read_text(encoding="utf-8").splitlines()] == [7, 8]


def test_json_log_shows_whole_messages_when_asked_to(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    log = JsonLog()
    log.configure({"path": str(path), "include.bodies": "true"})
    tell(log, PRODUCE, 9, produced("orders"))
    answer(log, PRODUCE, 9, taken(orders=OK))
    log.close(10)
    (line,) = lines(path)
    assert line["request"]["topic_data"][0]["partition_data"] == [
        {"index": 0, "records": {"size": len(BATCH), "count": 2}}
    ]
    assert line["response"]["responses"][0]["name"] == "orders"


def test_json_log_begins_a_new_file_when_somebody_has_moved_the_old_one(tmp_path: Path) -> None:
    path, moved = tmp_path / "log.json", tmp_path / "log.json.1"
    log = JsonLog()
    log.configure({"path": str(path)})
    path.rename(moved)
    log.record_connection(ConnectionNotice(NoticeKind.ACCEPTED, "EXTERNAL", "192.0.2.7", 5, 1))
    log.close(10)
    assert (len(lines(path)), moved.read_bytes()) == (1, b"")


def test_json_log_that_cannot_write_is_not_loaded(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"path: .* cannot be written: No such file or directory"):
        JsonLog().configure({"path": str(tmp_path / "none" / "log.json")})


def test_built_in_observers_implement_their_protocols() -> None:
    for kind in (JsonLog, PrometheusObserver):
        assert isinstance(kind(), Observer)
        assert isinstance(kind(), UnansweredObserver)
    assert isinstance(JsonLog(), ConnectionObserver)
    assert isinstance(PrometheusObserver(), MeasuredObserver)
