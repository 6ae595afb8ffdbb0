"""Brokers and controllers authenticate at each other, by PLAIN and by SCRAM, and replicate."""

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.processes.broker_process import BrokerGroup

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
MAP = "PLAINTEXT:PLAINTEXT,INTERNAL:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
OF_CONTROLLERS = {
    "listener.security.protocol.map": MAP,
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": (
        f'{PLAIN} required username="node" password="node-secret" user_node="node-secret";'
    ),
}


def of_brokers(mechanism: str, jaas: str) -> dict[str, str]:
    return {
        "inter.broker.listener.name": "INTERNAL",
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "listener.name.internal.sasl.enabled.mechanisms": mechanism,
        f"listener.name.internal.{mechanism.lower()}.sasl.jaas.config": jaas,
    }


def produced(bootstrap: str, records: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic("replicated", 6, 3, config={"min.insync.replicas": "3"})
    admin.create_topics([topic], operation_timeout=30)["replicated"].result(60)
    failed: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 60_000})
    for number in range(records):
        producer.produce("replicated", b"%d" % number, on_delivery=lambda e, _: failed.append(e) if e else None)
    assert producer.flush(60) == 0
    assert failed == []


@pytest.mark.full
def test_plain_with_sessions_that_end() -> None:
    jaas = f'{PLAIN} required username="broker" password="broker-secret" user_broker="broker-secret";'
    mine = of_brokers("PLAIN", jaas) | {"connections.max.reauth.ms": "3000"}
    with BrokerGroup(3, listeners=["INTERNAL"], properties=OF_CONTROLLERS, of_brokers=mine) as group:
        produced(group.bootstrap, 600)
        deadline = time.monotonic() + 8
        producer = Producer({"bootstrap.servers": group.bootstrap, "acks": "all"})
        failed: list[Any] = []
        while time.monotonic() < deadline:
            producer.produce("replicated", b"later", on_delivery=lambda e, _: failed.append(e) if e else None)
            producer.poll(0.05)
        assert producer.flush(60) == 0
        assert failed == []
        logs = "".join(node.log() for node in group.nodes)
        assert "broker-secret" not in logs
        assert "node-secret" not in logs


def test_scram_with_the_credentials_of_a_new_cluster(tmp_path: Path) -> None:
    file = tmp_path / "scram"
    file.write_text("SCRAM-SHA-512=[name=broker,password=broker-secret]\n")
    mine = of_brokers("SCRAM-SHA-512", f'{SCRAM} required username="broker" password="broker-secret";')
    theirs = OF_CONTROLLERS | {"sluicegate.bootstrap.scram.file": str(file)}
    with BrokerGroup(3, listeners=["INTERNAL"], properties=theirs, of_brokers=mine) as group:
        produced(group.bootstrap, 600)
        file.unlink()
        group.controller.stop()
        group.controller.start()
        described = AdminClient({"bootstrap.servers": group.bootstrap})
        found = described.describe_user_scram_credentials(["broker"])["broker"].result(30)
        assert [info.iterations for info in found.scram_credential_infos] == [4096]
        assert "broker-secret" not in "".join(node.log() for node in group.nodes)
