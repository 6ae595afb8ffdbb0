"""The audit log has the principal of each client, and the clients that could not authenticate."""

from pathlib import Path

from confluent_kafka import Producer

from audit_pipeline.ingest.land import land
from audit_pipeline.reading.query import Events
from audit_pipeline.spool.targets import FolderTarget
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.wire_client import WireClient

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_principals_are_recorded(tmp_path: Path) -> None:
    properties = {
        "num.partitions": "1",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": f'{MODULE} required user_alice="secret";',
        "observer.class.names": "audit-log",
        "observer.audit-log.spool.dir": str(tmp_path / "spools"),
    }
    with BrokerProcess(listeners=["SECURE"], properties=properties) as broker:
        producer = Producer(
            {
                "bootstrap.servers": f"{broker.host}:{broker.port('SECURE')}",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "alice",
                "sasl.password": "secret",
            }
        )
        producer.produce("orders", b"value")
        assert producer.flush(60) == 0
        with WireClient((broker.host, broker.port("SECURE"))) as client:
            client.ask("sasl_handshake", 1, mechanism="PLAIN")
            client.ask("sasl_authenticate", 2, auth_bytes=b"\0alice\0wrong")
            assert client.receive() is None
        broker.stop()
    target = FolderTarget(tmp_path / "segments")
    land(tmp_path / "spools", target)
    asked = Events(target)
    assert asked.ask("SELECT DISTINCT principal FROM request WHERE api_key = 0")[1] == [("User:alice",)]
    closed = "SELECT DISTINCT principal FROM connection WHERE event = 'closed' AND reason = 'authentication-failed'"
    assert asked.ask(closed)[1] == [("User:ANONYMOUS",)]
