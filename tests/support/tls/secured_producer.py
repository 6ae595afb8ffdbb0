"""A producer as a process, to be killed: SETTINGS TOPIC PARTITIONS PREFIX. It prints each acknowledged record.

SETTINGS are librdkafka's, in JSON. A line is `PARTITION OFFSET VALUE`; it is written before the next record is sent.
"""

import json
import sys

from confluent_kafka import Message, Producer


def main() -> None:
    settings, topic, partitions, prefix = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
    producer = Producer({"acks": "all", "enable.idempotence": True, "linger.ms": 2, "log_level": 2} | settings)

    def delivered(error: object, message: Message) -> None:
        line = f"error {error}" if error else f"{message.partition()} {message.offset()} {message.value().decode()}"
        print(line, flush=True)

    number = 0
    while True:
        producer.produce(topic, f"{prefix}-{number}".encode(), partition=number % partitions, on_delivery=delivered)
        number += 1
        producer.poll(0.001)


if __name__ == "__main__":
    main()
