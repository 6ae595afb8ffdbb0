"""The audit log of real brokers: what clients did is what the segments say."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from audit_pipeline.check import check
from audit_pipeline.land import land
from audit_pipeline.query import Events
from audit_pipeline.targets import FolderTarget
from tests.support.broker_process import BrokerProcess


@pytest.fixture
def spools(tmp_path: Path) -> Path:
    return tmp_path / "spools"


@pytest.fixture
def audited(spools: Path) -> Iterator[Callable[..., BrokerProcess]]:
    running: list[BrokerProcess] = []

    def start(**config: str) -> BrokerProcess:
        properties = {"num.partitions": "3", "observer.class.names": "audit-log"}
        properties["observer.audit-log.spool.dir"] = str(spools)
        properties |= {f"observer.audit-log.{key.replace('_', '.')}": value for key, value in config.items()}
        broker = BrokerProcess(properties=properties)
        running.append(broker)
        return broker.__enter__()

    yield start
    for broker in running:
        broker.__exit__()


def produce(broker: BrokerProcess, count: int, acks: str = "all") -> int:
    """One request for each message; how many were acknowledged."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": acks, "linger.ms": 0, "log_level": 0})
    acknowledged: list[bool] = []
    for number in range(count):
        producer.produce(
            "orders", b"x" * 100, partition=number % 3, on_delivery=lambda error, _: acknowledged.append(error is None)
        )
        producer.flush(30)
    return sum(acknowledged)


def consume(broker: BrokerProcess, count: int) -> None:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "none", "client.id": "reader", "log_level": 0}
    )
    consumer.assign([TopicPartition("orders", partition, 0) for partition in range(3)])
    while count > 0:
        message = consumer.poll(30)
        assert message is not None
        count -= message.error() is None
    consumer.close()


def test_what_clients_did_is_in_the_segments_once(
    audited: Callable[..., BrokerProcess], spools: Path, tmp_path: Path
) -> None:
    broker = audited()
    assert produce(broker, 60) == 60
    assert produce(broker, 30, acks="0") == 30
    consume(broker, 90)
    broker.stop()

    target = FolderTarget(tmp_path / "segments")
    land(spools, target)

    report = check(target)
    assert report.findings == []
    asked = Events(target)

    def one(sql: str) -> Any:
        return asked.ask(sql)[1][0]

    produced = "SELECT count(*), count(DISTINCT seq), sum(records), sum(bytes) > 9000, min(base_offset) FROM partition "
    assert one(produced + "WHERE api_key = 0") == (90, 90, 90, True, 0)
    assert one("SELECT sum(bytes) FROM partition WHERE api_key = 1") == one(
        "SELECT sum(bytes) FROM partition WHERE api_key = 0"
    )
    assert one("SELECT count(*) FROM request WHERE acks = 0 AND response_bytes = 0") == (30,)
    assert one("SELECT count(*) FROM request WHERE acks = -1 AND response_bytes > 0 AND ending = 'answered'") == (60,)
    assert one("SELECT count(DISTINCT software_name) FROM request WHERE client_id = 'reader'") == (1,)
    assert one("SELECT count(*) FROM request WHERE total_us < 0 OR handler_us < 0 OR wait_us < 0") == (0,)
    accepted = "SELECT count(DISTINCT connection_id) FROM connection WHERE event = 'accepted'"
    assert one(accepted) == one("SELECT count(DISTINCT connection_id) FROM connection WHERE event = 'closed'")
    assert one(accepted)[0] >= 3


def test_requests_are_refused_while_they_cannot_be_recorded_where_that_is_asked_for(
    audited: Callable[..., BrokerProcess], spools: Path, tmp_path: Path
) -> None:
    broker = audited(queue_full="reject", queue_bytes="2000", spool_bytes="300000", segment_bytes="50000")
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "message.timeout.ms": 3000, "log_level": 0}
    )
    failed: list[object] = []
    for _ in range(10_000):
        producer.produce("orders", b"x", on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.flush(30)
        if failed:
            break
    assert failed, "the spool is full, and requests were served all the same"
    target = FolderTarget(tmp_path / "segments")
    land(spools, target)
    assert produce(broker, 1) == 1
    broker.stop()
    land(spools, target)
    kinds = {finding.kind for finding in check(target).findings}
    assert kinds <= {"gap"}


def test_a_folder_that_cannot_be_written_leaves_traffic_alone(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    properties = {
        "observer.class.names": "audit-log",
        "num.partitions": "3",
        "observer.audit-log.spool.dir": str(in_the_way / "spools"),
    }
    with BrokerProcess(properties=properties) as broker:
        assert produce(broker, 3) == 3
