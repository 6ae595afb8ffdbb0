"""The observer without a broker: it is shown requests that a sample makes."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from topic_traffic import TopicTraffic

from broker_runtime.observers.samples import sample_request

PRODUCE = 0
BATCH = bytes(57) + (7).to_bytes(4, "big") + b"not looked at"


def batch() -> bytes:
    """Of 7 records, as far as its header says."""
    header = bytearray(BATCH)
    header[8:12] = (len(BATCH) - 12).to_bytes(4, "big")
    header[16] = 2
    return bytes(header)


def produce(observer: TopicTraffic, client_id: str, topic: str) -> None:
    partition = {"index": 0, "records": batch()}
    topics = [{"name": topic, "partition_data": [partition, {"index": 1, "records": None}]}]
    fields = {"transactional_id": None, "acks": 1, "timeout": 1000, "topic_data": topics}
    with sample_request(PRODUCE, 9, fields, client_id=client_id) as struct:
        observer.record_request(struct, "192.0.2.7", "User:ANONYMOUS", PRODUCE, 9, "1-1")


def test_it_adds_up_by_client_and_topic(tmp_path: Path) -> None:
    path = tmp_path / f"traffic-{os.getpid()}.json"
    observer = TopicTraffic()
    observer.configure({"path": str(tmp_path / "traffic-{pid}.json"), "interval.s": "3600", "series.max": "2"})
    for _ in range(3):
        produce(observer, "shop", "orders")
    produce(observer, "shop", "payments")
    produce(observer, "one too many", "orders")
    observer.close(10)
    size = len(batch())
    assert json.loads(path.read_text()) == [
        {"client": "other", "topic": "other", "bytes": size, "records": 7},
        {"client": "shop", "topic": "orders", "bytes": 3 * size, "records": 21},
        {"client": "shop", "topic": "payments", "bytes": size, "records": 7},
    ]


def test_a_file_that_cannot_be_written_for_a_while_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "there" / "traffic.json"
    path.parent.mkdir()
    observer = TopicTraffic()
    observer.configure({"path": str(path), "interval.s": "0.01"})
    shutil.rmtree(path.parent)
    deadline_s = time.monotonic() + 60
    while "cannot be written" not in caplog.text:
        assert time.monotonic() < deadline_s
    path.parent.mkdir()
    produce(observer, "shop", "orders")
    observer.close(60)
    assert json.loads(path.read_text())[0]["records"] == 7


def test_the_error_names_the_missing_key() -> None:
    with pytest.raises(ValueError, match="path is missing"):
        TopicTraffic().configure({})
