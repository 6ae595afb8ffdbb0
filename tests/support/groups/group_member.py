"""A member of a consumer group as a separate process, which can be killed: its assignment and the records it reads.

    with GroupMember("confluent", bootstrap, group="billing", topic="orders") as member:
        until(lambda: member.assigned == [0, 1], "it has both partitions")

The process reports each record before it commits it; on SIGTERM it leaves its group.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import confluent_kafka
import kafka
from aiokafka import AIOKafkaConsumer
from aiokafka import ConsumerRebalanceListener as AioListener

PATIENCE_S = 60.0
SESSION_MS, HEARTBEAT_MS = 2_000, 500
ROOT = Path(__file__).resolve().parents[3]


class GroupMember:
    """A member of a group in a process of its own. `client` is confluent, kafka-python or aiokafka."""

    def __init__(self, client: str, bootstrap: str, *, group: str, topic: str, instance_id: str = "") -> None:
        self.client = client
        self.assigned: list[int] | None = None
        """Partitions of the last reported assignment; None before the first."""
        self.read: list[tuple[int, int, str]] = []
        """Partition, offset and value of each record, in the order in which the process has reported them."""
        self._arguments = [client, bootstrap, group, topic, instance_id]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.groups.group_member", *self._arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONWARNINGS": "ignore"},
        )
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill the process as kill -9 does: it notifies no broker."""
        self._process.kill()
        self._ended()

    def leave(self) -> None:
        """Make the member leave its group and end."""
        self._process.send_signal(signal.SIGTERM)
        self._ended()

    def _ended(self) -> None:
        self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "assigned" in told:
                self.assigned = told["assigned"]
            self.read += [(partition, offset, value) for partition, offset, value in told.get("read", ())]


def _tell(**said: Any) -> None:
    print(json.dumps(said), flush=True)


class _Leaves:
    """A flag that SIGTERM sets."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, *_: object) -> None:
        self.asked = True


class _Tells:
    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        pass

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        _tell(assigned=sorted(each.partition for each in assigned))


class _Listener(_Tells, kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    pass


class _AioListener(_Tells, AioListener):  # type: ignore[misc]
    pass


def _confluent(bootstrap: str, group: str, topic: str, instance_id: str, leaves: _Leaves) -> None:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
    }
    consumer = confluent_kafka.Consumer(settings | ({"group.instance.id": instance_id} if instance_id else {}))
    consumer.subscribe([topic], on_assign=lambda _, parts: _tell(assigned=sorted(each.partition for each in parts)))
    while not leaves.asked:
        messages = [each for each in consumer.consume(100, 0.1) if each.error() is None]
        if messages:
            _tell(read=[(each.partition(), each.offset(), each.value().decode()) for each in messages])
            consumer.commit(asynchronous=False)
    consumer.close()


def _kafka_python(bootstrap: str, group: str, topic: str, instance_id: str, leaves: _Leaves) -> None:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        group_instance_id=instance_id or None,
    )
    consumer.subscribe([topic], listener=_Listener())
    while not leaves.asked:
        found = [each for records in consumer.poll(100).values() for each in records]
        if found:
            _tell(read=[(each.partition, each.offset, each.value.decode()) for each in found])
            consumer.commit()
    consumer.close()


def _aiokafka(bootstrap: str, group: str, topic: str, instance_id: str, leaves: _Leaves) -> None:
    async def run() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            group_instance_id=instance_id or None,
        )
        consumer.subscribe([topic], listener=_AioListener())
        await consumer.start()
        while not leaves.asked:
            found = [each for records in (await consumer.getmany(timeout_ms=100)).values() for each in records]
            if found:
                _tell(read=[(each.partition, each.offset, each.value.decode()) for each in found])
                await consumer.commit()
        await consumer.stop()

    asyncio.run(run())


CLIENTS: Mapping[str, Callable[[str, str, str, str, _Leaves], None]] = {
    "confluent": _confluent,
    "kafka-python": _kafka_python,
    "aiokafka": _aiokafka,
}


if __name__ == "__main__":
    _, client, bootstrap, group, topic, instance_id = sys.argv
    CLIENTS[client](bootstrap, group, topic, instance_id, _Leaves())
