"""A broker that serves topics has imported no part of groups; the first group adds them (decision 45).

The tests count modules, not megabytes, which depend on the machine: benchmarks measure those.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer
from kafka import TopicPartition as Partition

from benchmarks.brokers.workloads import create_topic
from broker_runtime.apis.request.forwarding import ENVELOPED
from tests.support.oracles.imports_on_demand import LIGHT_PARTS_OF_GROUPS, ON_DEMAND, UNWANTED
from tests.support.processes.broker_process import BrokerProcess


class Broker:
    def __init__(self, process: BrokerProcess, file: Path) -> None:
        self.process = process
        self.bootstrap = process.bootstrap
        self._file = file

    def modules(self) -> set[str]:
        self._file.unlink(missing_ok=True)
        os.kill(self.process.pid, signal.SIGUSR1)
        deadline = time.monotonic() + 60
        while not self._file.exists():
            assert time.monotonic() < deadline, "the broker did not write the names of its modules"
            # A signal handler of Python runs only while the event loop has something to do.
            self.process.get("/readyz")
        return set(self._file.read_text(encoding="utf-8").split())


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    file = tmp_path / "modules"
    environment = {"MODULES_FILE": str(file)}
    with BrokerProcess(module="tests.support.processes.proxies.listing_broker", environment=environment) as process:
        yield Broker(process, file)


def produce(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "none"})
    for number in range(10):
        producer.produce("load", str(number))
    assert producer.flush(60) == 0


def read_alone(broker: Broker) -> None:
    """Read without a group id; librdkafka demands one and asks for its coordinator."""
    with KafkaConsumer(
        bootstrap_servers=broker.bootstrap, enable_auto_commit=False, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([Partition("load", 0)])
        assert consumer.poll(60_000) != {}


def read_as_group(broker: Broker) -> None:
    config = {"bootstrap.servers": broker.bootstrap, "auto.offset.reset": "earliest", "group.id": "first"}
    consumer = Consumer(config)
    consumer.subscribe(["load"])
    message = consumer.poll(60)
    assert message is not None
    assert message.error() is None
    consumer.close()


def test_code_of_groups_is_imported_with_the_first_group(broker: Broker) -> None:
    create_topic(broker.bootstrap, "load")
    produce(broker)
    read_alone(broker)
    without_groups = broker.modules()
    # The request for the topic was forwarded.
    assert sorted(without_groups & {*ON_DEMAND, *UNWANTED}) == [ENVELOPED]
    assert {name for name in without_groups if name.startswith("broker_runtime.groups")} == LIGHT_PARTS_OF_GROUPS

    read_as_group(broker)
    with_groups = broker.modules()
    wanted = {
        "broker_runtime.groups.service",
        "broker_runtime.apis.groups.join_group",
        "broker_runtime.apis.groups.offset_commit",
    }
    assert sorted(wanted - with_groups) == []
    unwanted = {"broker_runtime.apis.push.push", "broker_runtime.apis.groups.delete_groups", "ssl", "_hashlib"}
    assert sorted(unwanted & with_groups) == []
