"""Write an order and read it back with the settings of a file: `python examples/secure/orders.py FILE [TOPIC]`."""

import runpy
import sys
import uuid

from confluent_kafka import Consumer, KafkaException, Producer

settings = {"group.id": "billing"} | runpy.run_path(sys.argv[1])["confluent_kafka"]
topic = sys.argv[2] if len(sys.argv) > 2 else "orders"
order = f"order {uuid.uuid4()}".encode()
errors: list[object] = []

producer = Producer({key: value for key, value in settings.items() if key != "group.id"})
producer.produce(topic, order, on_delivery=lambda error, _: errors.append(error))
if producer.flush(30):
    sys.exit("not written within 30 seconds")
if errors[0] is not None:
    sys.exit(f"not written: {errors[0]}")
consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
consumer.subscribe([topic])
found = consumer.poll(30)
while found is not None and found.value() != order:
    if found.error():
        raise KafkaException(found.error())
    found = consumer.poll(30)
consumer.close()
if found is None:
    sys.exit("not read within 30 seconds")
sys.stdout.write(f"{settings['group.id']} has written and read {order.decode()}\n")
