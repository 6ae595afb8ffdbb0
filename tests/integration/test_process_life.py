"""Start, stop, crash and bad configuration of a real broker process."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.support.acknowledged import create_topic
from tests.support.broker_admin import effective_config, set_default_config, set_ip_rates, until
from tests.support.broker_process import ROOT, BrokerProcess

RATE = "max.connection.creation.rate"


def produce(bootstrap: str, topic: str, numbers: range, **settings: object) -> list[bytes]:
    """The values that were acknowledged."""
    acknowledged: list[bytes] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **settings})
    for number in numbers:
        producer.produce(
            topic, b"%d" % number, on_delivery=lambda e, m: None if e is not None else acknowledged.append(m.value())
        )
    producer.flush(30)
    return acknowledged


def consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while len(found) < count:
        message = consumer.poll(10)
        assert message is not None, f"only {len(found)} of {count} records came"
        assert message.error() is None
        found.append(message.value())
    consumer.close()
    return found


def test_kill_9_loses_nothing_that_was_acknowledged_and_recovery_says_what_it_did() -> None:
    with BrokerProcess() as broker:
        acknowledged = produce(broker.bootstrap, "orders", range(2000))
        assert len(acknowledged) == 2000
        broker.kill()
        broker.start()
        assert consume(broker.bootstrap, "orders", 2000) == acknowledged
        assert "unclean" in broker.log()


def test_a_clean_stop_exits_with_0_and_the_next_start_scans_nothing() -> None:
    with BrokerProcess() as broker:
        acknowledged = produce(broker.bootstrap, "orders", range(100))
        assert broker.stop() == 0
        broker.start()
        assert consume(broker.bootstrap, "orders", 100) == acknowledged
        assert "unclean" not in broker.log()


def test_sequence_checks_of_idempotent_producers_survive_a_crash() -> None:
    with BrokerProcess() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
        for number in range(100):
            producer.produce("orders", b"%d" % number)
        producer.flush(30)
        broker.kill()
        broker.start()
        for number in range(100, 200):
            producer.produce("orders", b"%d" % number)
        assert producer.flush(30) == 0
        assert consume(broker.bootstrap, "orders", 200) == [b"%d" % number for number in range(200)]


def test_a_topic_has_its_configuration_after_a_restart() -> None:
    with BrokerProcess() as broker:
        create_topic(broker.bootstrap, "small", 1, 1, max_message_bytes="2000")
        assert produce(broker.bootstrap, "small", range(1))
        broker.kill()
        broker.start()
        told: list[KafkaError | None] = []
        producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "log_level": 2})
        producer.produce("small", b"x" * 5_000, on_delivery=lambda error, _: told.append(error))
        assert producer.flush(30) == 0
        assert [error and error.code() for error in told] == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_dynamic_configuration_survives_a_crash() -> None:
    with BrokerProcess() as broker:
        set_default_config(broker, RATE, "123")
        broker.kill()
        broker.start()
        assert effective_config(broker, RATE) == "123"


def run_to_its_end(folder: Path, properties: str) -> subprocess.CompletedProcess[str]:
    path = folder / "server.properties"
    path.write_text(properties)
    command = [sys.executable, "-m", "broker_runtime", "--config", str(path)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("no.such.key=1", "no.such.key"),
        ("max.connections=many", "max.connections"),
        ("max.connections=-1", "must be at least 0"),
        (f"{RATE}=-1", "must be at least 0"),
        ("quota.window.num=0", "must be at least 1"),
        ("just words", "not of the form key=value"),
    ],
)
def test_a_configuration_that_cannot_be_used_ends_with_2_and_a_sentence(tmp_path: Path, line: str, said: str) -> None:
    done = run_to_its_end(tmp_path, f"node.id=1\nlog.dirs={tmp_path}/data\nlisteners=PLAINTEXT://127.0.0.1:0\n{line}\n")
    assert done.returncode == 2
    assert said in done.stderr
    assert "server.properties" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_taken_port_ends_with_1_and_names_listener_and_address(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_to_its_end(
            tmp_path, f"node.id=1\nlog.dirs={tmp_path}/data\nlisteners=PLAINTEXT://127.0.0.1:{port}\n"
        )
    assert done.returncode == 1
    assert "PLAINTEXT" in done.stderr
    assert str(port) in done.stderr
    assert "Traceback" not in done.stderr


def test_two_processes_cannot_share_a_data_folder(tmp_path: Path) -> None:
    with BrokerProcess(folder=tmp_path) as broker:
        done = run_to_its_end(tmp_path, f"node.id=1\nlog.dirs={broker.data}\nlisteners=PLAINTEXT://127.0.0.1:0\n")
        assert done.returncode == 2
        assert str(broker.data) in done.stderr


def test_a_data_folder_of_another_node_is_refused(tmp_path: Path) -> None:
    with BrokerProcess(folder=tmp_path) as broker:
        assert broker.stop() == 0
        broker.start()
        broker.stop()
        done = run_to_its_end(tmp_path, f"node.id=2\nlog.dirs={broker.data}\nlisteners=PLAINTEXT://127.0.0.1:0\n")
    assert done.returncode == 2
    assert "belongs to node 1" in done.stderr


def test_a_quota_on_a_host_name_is_enforced_on_its_address() -> None:
    with BrokerProcess(properties={"quota.window.num": "2"}) as broker:
        set_ip_rates(broker, {"localhost": 1.0})

        def refused() -> bool:
            for _ in range(10):
                socket.create_connection((broker.host, broker.port()), timeout=5).close()
            name = 'kafka_server_socket_server_connections_rejected_total{listener="PLAINTEXT",reason="delayed"}'
            return broker.metrics()[name] > 0

        until(refused, "connections from 127.0.0.1 are over the rate of localhost")
