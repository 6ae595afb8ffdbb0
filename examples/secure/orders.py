"""Write an order and read it back as the user of a settings.py: `python examples/secure/orders.py FILE`."""

import runpy
import sys
import uuid

from confluent_kafka import Consumer, KafkaException, Producer

settings = runpy.run_path(sys.argv[1])["confluent_kafka"]
order = f"order {uuid.uuid4()}".encode()


def written(error: object, _: object) -> None:
    if error is not None:
        sys.exit(f"not written: {error}")


producer = Producer(settings)
producer.produce("orders", order, on_delivery=written)
if producer.flush(30):
    sys.exit("not written within 30 seconds")
consumer = Consumer({**settings, "group.id": "billing", "auto.offset.reset": "earliest"})
consumer.subscribe(["orders"])
found = consumer.poll(30)
while found is not None and found.value() != order:
    if found.error():
        raise KafkaException(found.error())
    found = consumer.poll(30)
consumer.close()
if found is None:
    sys.exit("not read within 30 seconds")
sys.stdout.write(f"{settings['sasl.username']} has written and read {order.decode()}\n")
