"""Start, stop, crash and bad configuration of a real broker process."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sluicegate_operator.kafka_admin.errors import KafkaApiError
from tests.support.processes.broker_process import ROOT, BrokerProcess
from tests.support.processes.clients.broker_admin import effective_config, set_default_config, set_ip_rates, until

RATE = "max.connection.creation.rate"


def produce(bootstrap: str, topic: str, numbers: range, *, at_ms: int = 0, **settings: object) -> list[bytes]:
    """Produce values, and return the acknowledged ones."""
    acknowledged: list[bytes] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **settings})
    for number in numbers:
        producer.produce(
            topic,
            b"%d" % number,
            timestamp=at_ms,
            on_delivery=lambda e, m: None if e is not None else acknowledged.append(m.value()),
        )
    producer.flush(60)
    return acknowledged


def consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while len(found) < count:
        message = consumer.poll(60)
        assert message is not None, f"only {len(found)} of {count} records came"
        assert message.error() is None
        found.append(message.value())
    consumer.close()
    return found


def test_kill_9_loses_no_acknowledged_record_and_recovery_logs_its_work() -> None:
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
        producer.flush(60)
        broker.kill()
        broker.start()
        for number in range(100, 200):
            producer.produce("orders", b"%d" % number)
        assert producer.flush(60) == 0
        assert consume(broker.bootstrap, "orders", 200) == [b"%d" % number for number in range(200)]


def test_dynamic_configuration_survives_a_crash() -> None:
    with BrokerProcess() as broker:
        set_default_config(broker, RATE, "123")
        broker.kill()
        broker.start()
        assert effective_config(broker, RATE) == "123"


def test_a_topic_is_still_what_it_was_configured_to_be_after_a_restart() -> None:
    with BrokerProcess() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        small = NewTopic("small", 1, 1, config={"max.message.bytes": "1000", "retention.ms": "-1"})
        admin.create_topics([small])["small"].result(30)
        year_ago_ms = int(time.time() * 1000) - 365 * 86_400_000
        assert produce(broker.bootstrap, "small", range(1), at_ms=year_ago_ms) == [b"0"]
        assert broker.stop() == 0
        broker.start()
        large: list[KafkaError | None] = []
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("small", bytes(5000), on_delivery=lambda error, _: large.append(error))
        producer.flush(30)
        assert [error.code() for error in large if error] == [KafkaError.MSG_SIZE_TOO_LARGE]
        assert consume(broker.bootstrap, "small", 1) == [b"0"]


def run_to_its_end(folder: Path, properties: str) -> subprocess.CompletedProcess[str]:
    path = folder / "server.properties"
    path.write_text(properties)
    command = [sys.executable, "-m", "broker_runtime", "--config", str(path)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=90, check=False)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("no.such.key=1", "no.such.key"),
        ("max.connections=many", "max.connections"),
        ("max.connections=-1", "must be at least 0"),
        (f"{RATE}=-1", "must be at least 0"),
        ("quota.window.num=0", "must be at least 1"),
        ("num.partitions=1_000", "must be a number of type INT"),
        ("max.connections.per.ip.overrides=no-such-host.invalid:5", "no-such-host.invalid cannot be resolved"),
        ("justwords", "does not have the form key=value"),
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


@pytest.mark.parametrize("spelled", ["localhost", "127.0.0.1", "[0:0:0:0:0:ffff:127.0.0.1]"])
def test_overrides_in_the_file_let_in_whom_they_name(spelled: str) -> None:
    limits = {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": f"{spelled}:50"}
    with BrokerProcess(properties=limits) as broker:
        produce(broker.bootstrap, "orders", range(1))


def test_two_admin_calls_lock_nobody_out() -> None:
    with BrokerProcess() as broker:
        set_default_config(broker, "max.connections.per.ip.overrides", "127.0.0.1:50")
        set_default_config(broker, "max.connections.per.ip", "0")
        with pytest.raises(KafkaApiError, match="can be set to zero only if"):
            set_default_config(broker, "max.connections.per.ip.overrides", None)
        produce(broker.bootstrap, "orders", range(1))
