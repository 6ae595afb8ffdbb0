"""A full disk without root: the process may not grow files past a limit that the test moves (RLIMIT_FSIZE)."""

import resource

from confluent_kafka import KafkaError, Producer

from tests.integration.test_process_life import consume
from tests.support.broker_process import BrokerProcess

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
