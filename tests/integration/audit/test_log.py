"""The audit log of real brokers: segments contain what clients did."""

import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from audit_pipeline.ingest.land import land
from audit_pipeline.reading.query import Events
from audit_pipeline.spool.targets import FolderTarget
from audit_pipeline.upkeep.check import check
from tests.support.logs.packed_batches import timed
from tests.support.processes.broker_process import ROOT, BrokerProcess
from tests.support.processes.clients.broker_admin import until
from tests.support.processes.clients.wire_client import ConnectionEnded, WireClient


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
    """Produce each message in a separate request, and return the number of acknowledged ones."""
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
    assert one("SELECT sum(records) FROM partition WHERE api_key = 1") == (90,)
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


def create_topic(client: WireClient) -> None:
    topic = {"name": "orders", "num_partitions": 3, "replication_factor": 1, "assignments": [], "configs": []}
    client.ask("create_topics", 4, topics=[topic], timeout=30_000, validate_only=False)
    latest = [{"partition_index": index, "current_leader_epoch": -1, "timestamp": -1} for index in range(3)]

    def is_led() -> bool:
        topics = [{"name": "orders", "partitions": latest}]
        answer = client.ask("list_offsets", 7, replica_id=-1, isolation_level=0, topics=topics)
        return all(part["error_code"] == "none" for part in answer["topics"][0]["partitions"])

    until(is_led, "the files of the partitions are made")


def append(client: WireClient) -> int:
    """Append one record, and return its offset. Raises ConnectionEnded."""
    data = {"name": "orders", "partition_data": [{"index": 0, "records": timed([1_700_000_000_000])}]}
    answer = client.ask("produce", 9, transactional_id=None, acks=1, timeout=30_000, topic_data=[data])
    (partition,) = answer["responses"][0]["partition_responses"]
    assert partition["error_code"] == "none"
    return int(partition["base_offset"])


def append_until_refused(client: WireClient) -> int:
    """Append until the broker refuses, and return the number of appended records."""
    for number in range(20_000):
        try:
            assert append(client) == number
        except ConnectionEnded:
            return number
    raise AssertionError("the spool is full, and requests were served all the same")


def metric(broker: BrokerProcess, name: str) -> float:
    values = [line.split()[-1] for line in broker.get("/metrics")[1].splitlines() if line.startswith(name)]
    return sum(map(float, values))


def test_requests_are_rejected_while_they_cannot_be_recorded_if_configured(
    audited: Callable[..., BrokerProcess], spools: Path, tmp_path: Path
) -> None:
    broker = audited(queue_full="reject", queue_bytes="2000", spool_bytes="300000", segment_bytes="50000")
    address, target = ("127.0.0.1", broker.port()), FolderTarget(tmp_path / "segments")
    with WireClient(address) as client:
        create_topic(client)
        appended = append_until_refused(client)
    with WireClient(address) as client, pytest.raises(ConnectionEnded):
        client.ask("api_versions", 0)
    assert metric(broker, 'kafka_server_socket_server_refused_total{kind="not-recorded"}') == 2

    land(spools, target)

    offsets: list[int] = []

    def is_appended() -> bool:
        try:
            with WireClient(address) as client:
                offsets.append(append(client))
        except ConnectionEnded:
            return False
        return True

    until(is_appended, "there is room again")
    assert offsets == [appended], "nothing was done for those that were refused"
    broker.stop()
    land(spools, target)
    assert {finding.kind for finding in check(target).findings} == {"gap"}
    recorded = "SELECT count(*) FROM partition WHERE api_key = 0 AND error_code = 0"
    assert Events(target).ask(recorded)[1] == [(appended + 1,)], "all that was done is recorded"


def test_events_of_a_full_disk_are_told_as_missing_to_the_last_one(
    audited: Callable[..., BrokerProcess], spools: Path, tmp_path: Path
) -> None:
    broker = audited(queue_bytes="2000", segment_bytes="10000000")
    asked = 0

    def ask(client: WireClient, count: int) -> None:
        nonlocal asked
        for _ in range(count):
            client.ask("api_versions", 0)
        asked += count

    with WireClient(("127.0.0.1", broker.port())) as client:
        ask(client, 1000)
        (spool,) = spools.glob("*.spool")
        until(lambda: spool.stat().st_size > 50_000, "a thousand requests are in the spool")
        _, hard = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (spool.stat().st_size, hard))
        ask(client, 1000)
        until(lambda: metric(broker, "sluicegate_audit_dropped_total") > 0, "the queue is full")
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (hard, hard))
        until(lambda: metric(broker, "sluicegate_audit_queued_bytes") == 0, "the queue is written")
        ask(client, 10)
    broker.stop()
    target = FolderTarget(tmp_path / "segments")
    land(spools, target)
    report = check(target)
    assert {finding.kind for finding in report.findings} == {"gap"}
    ((recorded,),) = Events(target).ask("SELECT count(*) FROM request")[1]
    assert recorded + report.missing == asked


def test_a_lander_that_is_stopped_lands_what_its_broker_writes_last(
    audited: Callable[..., BrokerProcess], spools: Path, tmp_path: Path
) -> None:
    broker, segments = audited(), tmp_path / "segments"
    command = [sys.executable, "-m", "audit_pipeline", "land", str(spools), str(segments), "--follow"]
    with WireClient(("127.0.0.1", broker.port())) as client:
        client.ask("api_versions", 0)
        lander = subprocess.Popen([*command, "--stop-s", "60"], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        assert lander.stderr is not None
        until((spools / "lander").exists, "the lander lands")
        lander.terminate()
        assert "waiting up to 60 s for the broker to end its spool" in lander.stderr.readline()
        client.ask("api_versions", 0)
    broker.stop()
    assert lander.wait(60) == 0
    lander.stderr.close()
    assert Events(FolderTarget(segments)).ask("SELECT count(*) FROM request")[1] == [(2,)]
    assert check(FolderTarget(segments)).findings == []
    assert not list(spools.glob("*.spool"))


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
