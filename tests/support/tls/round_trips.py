"""A client produces records over a secured listener and reads them again; the assertions are the test."""

from collections.abc import Mapping, Sequence
from contextlib import closing

from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition


def confluent_round_trip(settings: Mapping[str, str], values: Sequence[bytes], patience_s: int) -> None:
    """Send and receive the values with librdkafka, by a group."""
    failed: list[object] = []
    producer = Producer(dict(settings))
    for value in values:
        producer.produce("confluent", value, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(patience_s) == 0
    assert failed == [None] * len(values)
    consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["confluent"])
    found: list[bytes] = []
    while len(found) < len(values):
        message = consumer.poll(patience_s)
        assert message is not None
        assert message.error() is None
        found.append(message.value())
    consumer.close()
    assert found == list(values)


def kafka_python_round_trip(settings: Mapping[str, str], patience_s: int) -> None:
    """Send and receive one record with kafka-python, the first of its topic."""
    with closing(KafkaProducer(**settings)) as producer:
        assert producer.send("python", b"value").get(patience_s).offset == 0
    with closing(KafkaConsumer(consumer_timeout_ms=patience_s * 1000, **settings)) as consumer:
        partition = TopicPartition("python", 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        assert next(consumer).value == b"value"
