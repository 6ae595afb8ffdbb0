"""A full disk, simulated without root.

The process may not grow files past a limit that the test moves (RLIMIT_FSIZE), or receives the error that no space is
left (tests/support/fakes/disks/full_disk.py).
"""

import resource
from pathlib import Path

from confluent_kafka import KafkaError, Producer

from tests.integration.cluster.test_process_life import consume
from tests.support.fakes.disks.full_disk import VARIABLE
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.broker_admin import until

LIMIT_BYTES = 256 * 1024


def produce_one(producer: Producer, value: bytes) -> KafkaError | None:
    answers: list[KafkaError | None] = []
    producer.produce("orders", value, on_delivery=lambda error, _message: answers.append(error))
    assert producer.flush(60) == 0
    return answers[0]


def test_a_full_disk_refuses_the_record_serves_nothing_half_written_and_recovers() -> None:
    with BrokerProcess() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "retries": 0, "acks": "all"})
        assert produce_one(producer, b"first") is None
        _, hard = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (LIMIT_BYTES, hard))
        stored = [b"first"]
        for number in range(30):
            value = b"%d " % number + b"x" * 20_000
            error = produce_one(producer, value)
            if error is None:
                stored.append(value)
            else:
                assert error.code() == KafkaError.KAFKA_STORAGE_ERROR
        assert 5 < len(stored) < 20
        assert consume(broker.bootstrap, "orders", len(stored)) == stored
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (hard, hard))
        assert produce_one(producer, b"last") is None
        stored.append(b"last")
        assert consume(broker.bootstrap, "orders", len(stored)) == stored
        broker.kill()
        broker.start()
        assert consume(broker.bootstrap, "orders", len(stored)) == stored


def test_a_full_disk_is_told_and_records_are_taken_again_without_a_restart(tmp_path: Path) -> None:
    full = tmp_path / "full"
    environment = {VARIABLE: str(full)}
    with BrokerProcess(module="tests.support.fakes.disks.full_disk", environment=environment) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "retries": 0, "acks": "all"})
        assert produce_one(producer, b"first") is None
        full.touch()
        for _ in range(20):
            error = produce_one(producer, b"refused")
            assert error is not None
            assert error.code() == KafkaError.KAFKA_STORAGE_ERROR
        failed = f"log.dirs={broker.data}: append on orders-0 failed: ENOSPC: [Errno 28] No space left on device"
        assert broker.get("/readyz") == (200, f"ready\n{failed}\n")
        assert broker.log().count(failed) == 1
        assert broker.metrics()["sluicegate_log_directory_failing"] == 1
        assert broker.metrics()["sluicegate_log_failed_writes_total"] >= 1
        assert consume(broker.bootstrap, "orders", 1) == [b"first"]
        full.unlink()
        until(lambda: broker.metrics()["sluicegate_log_directory_failing"] == 0, "it is tried whether there is room")
        # The consumer caused the topic of groups to be created, whose coordinators retry periodically.
        until(lambda: broker.get("/readyz") == (200, "ready\n"), "everything is served again", timeout_s=60)
        assert "can be written again" in broker.log()
        assert produce_one(producer, b"last") is None
        broker.kill()
        broker.start()
        assert consume(broker.bootstrap, "orders", 2) == [b"first", b"last"]
        assert broker.stop() == 0
