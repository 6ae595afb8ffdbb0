"""Workloads for a broker, with ordinary clients; each function runs in a separate process and returns figures.

The client is the same for both subjects and shares their cores, so a ratio understates the difference of the brokers.
"""

import asyncio
import json
import selectors
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from itertools import cycle, pairwise
from pathlib import Path

import uvloop
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.brokers.group_consuming import consume_in_group
from benchmarks.brokers.time_lookups import list_offsets_by_time, produce_in_time
from benchmarks.security.handshakes import connect_by_tls, hold_idle_by_tls
from benchmarks.transactions.producers import init_producers, transact
from benchmarks.wire import API_VERSIONS, consume_wire, produce_one_by_one, produce_wire

ROOT = Path(__file__).resolve().parents[2]
RUN_TIMEOUT_S = 180
CONNECT_SOURCES = 8
_MESSAGES_A_CALL = 200
ASK_TIMEOUT_S = 0.5
ASK_PAUSE_S = 0.01
ASKED_MAX_S = 60.0
PATIENCE = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 50,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "log_level": 2,
}
"""Settings of a client that looks for a new leader quickly, because the time until there is one is measured."""


def create_topic(bootstrap: str, name: str, partitions: int = 1, replicas: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, partitions, replicas)]).values():
        future.result(120)


def delete_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_topics([name]).values():
        future.result(120)


def create_topic_again_and_again(bootstrap: str, name: str, replicas: int) -> None:
    """Create a topic with repeated short attempts. Raises RuntimeError if that takes too long.

    An attempt may succeed after its timeout. Then the next one fails because the topic exists, which counts as success.
    """
    limits = {"request_timeout": ASK_TIMEOUT_S, "operation_timeout": ASK_TIMEOUT_S}
    admin = AdminClient({"bootstrap.servers": bootstrap} | PATIENCE)
    deadline = time.monotonic() + ASKED_MAX_S
    while True:
        try:
            admin.create_topics([NewTopic(name, 1, replicas)], **limits)[name].result()
            return
        except KafkaException as error:
            reason = error.args[0]
            if reason.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"no topic could be created within {ASKED_MAX_S:g} s: {reason}") from error
        # Let the client's threads run, and do not retry immediate refusals in a tight loop.
        admin.poll(ASK_PAUSE_S)


def first_produce(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": 1, "linger.ms": 0, "reconnect.backoff.ms": 10})
    producer.produce(topic, b"first")
    if producer.flush(180):
        raise RuntimeError("the first record was not acknowledged within 60 s")


def produce(
    bootstrap: str,
    topic: str,
    *,
    size: int,
    batch_bytes: int,
    seconds: float,
    one: bool = False,
    acks: str = "1",
    security: Mapping[str, object] | None = None,
) -> dict[str, float]:
    """Produce messages of `size` bytes as fast as the client can. `one`: one message in each batch, five in flight."""
    settings: dict[str, object] = {
        **(security or {}),
        "bootstrap.servers": bootstrap,
        "acks": acks,
        "linger.ms": 0 if one else 20,
        "batch.size": batch_bytes,
        "message.max.bytes": max(1_000_000, batch_bytes),
        "batch.num.messages": 1 if one else 1_000_000,
        "queue.buffering.max.messages": 100_000 if one else 1_000_000,
        "queue.buffering.max.kbytes": 262_144,
        "max.in.flight.requests.per.connection": 5,
    }
    producer = Producer(settings)
    payload = bytes(size)
    failed: list[str] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failed.append(str(error))

    producer.produce(topic, payload, on_delivery=delivered)
    if producer.flush(30) or failed:
        raise RuntimeError(f"the first message was not acknowledged within 30 s {failed}")
    count = 0
    messages = [{"value": payload}] * _MESSAGES_A_CALL
    began = time.perf_counter()
    end = began + seconds
    while time.perf_counter() < end:
        queued = producer.produce_batch(topic, messages)
        count += queued
        if queued < _MESSAGES_A_CALL:
            producer.poll(0.001)
    if producer.flush(180):
        raise RuntimeError("messages were left when the time was over")
    took = time.perf_counter() - began
    return {"messages_per_s": count / took, "mb_per_s": count * size / took / 1e6}


def consume(bootstrap: str, topic: str, *, seconds: float) -> dict[str, float]:
    """Consume one assigned partition from its beginning repeatedly, with large fetches."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "fetch.message.max.bytes": 16_000_000,
            "queued.max.messages.kbytes": 262_144,
        }
    )
    start = TopicPartition(topic, 0, 0)
    consumer.assign([start])
    while not consumer.consume(1, timeout=10):
        pass
    count = size = 0
    began = time.perf_counter()
    while (now := time.perf_counter()) < began + seconds:
        for message in consumer.consume(10_000, timeout=1):
            if message.error() is not None:
                consumer.seek(start)
                continue
            count += 1
            size += len(message.value())
    took = now - began
    consumer.close()
    return {"messages_per_s": count / took, "mb_per_s": size / took / 1e6}


def connect(host: str, port: int, *, seconds: float, workers: int = 64) -> dict[str, float]:
    """Connect, send ApiVersions, and close, from eight loopback addresses.

    Closed loop with `workers` connections at a time.
    """
    times: list[float] = []
    refused = 0
    selector = selectors.DefaultSelector()
    sources = cycle([f"127.0.1.{n + 1}" for n in range(CONNECT_SOURCES)])
    began = time.perf_counter()

    def open_one() -> None:
        client = socket.socket()
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
        client.bind((next(sources), 0))
        opened_s = time.perf_counter()
        client.connect_ex((host, port))
        try:
            client.send(API_VERSIONS)
        except BlockingIOError:
            selector.register(client, selectors.EVENT_WRITE, opened_s)
        else:
            selector.register(client, selectors.EVENT_READ, opened_s)

    for _ in range(workers):
        open_one()
    while time.perf_counter() < began + seconds:
        for key, mask in selector.select(0.1):
            client = key.fileobj
            assert isinstance(client, socket.socket)
            try:
                if mask & selectors.EVENT_WRITE:
                    client.send(API_VERSIONS)
                    selector.modify(client, selectors.EVENT_READ, key.data)
                    continue
                answered = bool(client.recv(65536))
            except OSError:
                answered = False
            times.append(time.perf_counter() - key.data)
            refused += not answered
            selector.unregister(client)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            open_one()
    took = time.perf_counter() - began
    times.sort()
    return {
        "per_s": (len(times) - refused) / took,
        "refused": refused,
        "worst_ms": times[-1] * 1000 if times else float("nan"),
    }


def one_after_another(host: str, port: int, *, connections: int) -> dict[str, float]:
    """Open connections, each when the previous one is established, without sending requests."""
    opened = []
    began = time.perf_counter()
    for number in range(connections):
        source = (f"127.0.3.{number % 200 + 1}", 0)
        opened.append(socket.create_connection((host, port), timeout=RUN_TIMEOUT_S, source_address=source))
    took = time.perf_counter() - began
    for client in opened:
        client.close()
    return {"seconds": took}


def come_back(host: str, port: int, *, clients: int) -> dict[str, float]:
    """Connect all clients at once and send ApiVersions, as after a restart of the broker.

    The figure is the time until the last answer.
    """
    selector = selectors.DefaultSelector()
    began = time.perf_counter()
    for number in range(clients):
        client = socket.socket()
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
        client.bind((f"127.0.4.{number % 200 + 1}", 0))
        client.connect_ex((host, port))
        selector.register(client, selectors.EVENT_WRITE)
    unanswered, refused = clients, 0
    while unanswered and time.perf_counter() < began + RUN_TIMEOUT_S:
        for key, mask in selector.select(0.1):
            ready = key.fileobj
            assert isinstance(ready, socket.socket)
            try:
                if mask & selectors.EVENT_WRITE:
                    ready.send(API_VERSIONS)
                    selector.modify(ready, selectors.EVENT_READ)
                    continue
                refused += not ready.recv(65536)
            except OSError:
                refused += 1
            selector.unregister(ready)
            unanswered -= 1
    return {"seconds": time.perf_counter() - began, "refused": refused + unanswered}


def paced_produce(
    bootstrap: str,
    topic: str,
    *,
    seconds: float,
    interval_ms: float = 4.0,
    acks: str = "1",
    security: Mapping[str, object] | None = None,
) -> dict[str, float]:
    """Produce one record in each interval, and return percentiles of the time to its acknowledgement.

    `gap_ms` is the longest time without any acknowledgement.
    """
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 0} | PATIENCE | dict(security or {})
    )
    times: list[float] = []
    answered: list[float] = []
    failed: list[str] = []

    def delivered(error: object, sent: float) -> None:
        now = time.perf_counter()
        if error is not None:
            failed.append(str(error))
        answered.append(now)
        times.append(now - sent)

    producer.produce(topic, b"warm up")
    producer.flush(30)
    began = time.perf_counter()
    step = 0
    while (due := began + step * interval_ms / 1000) < began + seconds:
        step += 1
        while (left := due - time.perf_counter()) > 0:
            producer.poll(left)
        sent = time.perf_counter()
        producer.produce(topic, b"x" * 100, on_delivery=lambda error, _m, sent=sent: delivered(error, sent))
        producer.poll(0)
    producer.flush(60)
    if failed:
        raise RuntimeError(f"{len(failed)} records were refused: {failed[0]}")
    gaps = [later - earlier for earlier, later in pairwise(sorted(answered))]
    times.sort()
    found = {f"p{int(q * 100)}_ms": times[min(int(len(times) * q), len(times) - 1)] * 1000 for q in (0.5, 0.99)}
    return found | {"gap_ms": max(gaps) * 1000}


def hold_idle(host: str, port: int, *, connections: int) -> dict[str, float]:
    """Open connections that send ApiVersions once, report that on stdout, and keep them until stdin ends."""

    async def run() -> None:
        opened = []
        for number in range(connections):
            source = (f"127.0.2.{number % 200 + 1}", 0)
            reader, writer = await asyncio.open_connection(host, port, local_addr=source)
            writer.write(API_VERSIONS)
            await reader.readexactly(4)
            opened.append((reader, writer))
        print(json.dumps({"open": len(opened)}), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

    uvloop.run(run())
    return {}


def wait_on_partitions(bootstrap: str, topic: str, *, partitions: int) -> dict[str, float]:
    """Consume all these partitions until the process is killed."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "waits", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    while True:
        consumer.consume(500, timeout=1)


WORKLOADS: Mapping[str, Callable[..., dict[str, float]]] = {
    "produce_wire": produce_wire,
    "produce_one_by_one": produce_one_by_one,
    "wait_on_partitions": wait_on_partitions,
    "consume_wire": consume_wire,
    "produce_in_time": produce_in_time,
    "list_offsets_by_time": list_offsets_by_time,
    "produce": produce,
    "consume": consume,
    "consume_in_group": consume_in_group,
    "connect": connect,
    "connect_by_tls": connect_by_tls,
    "hold_idle_by_tls": hold_idle_by_tls,
    "one_after_another": one_after_another,
    "come_back": come_back,
    "paced_produce": paced_produce,
    "hold_idle": hold_idle,
    "transact": transact,
    "init_producers": init_producers,
}


def start(name: str, *arguments: object, **options: object) -> subprocess.Popen[str]:
    call = json.dumps({"name": name, "arguments": arguments, "options": options})
    command = [sys.executable, "-m", "benchmarks.brokers.workloads", call]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> dict[str, float]:
    out, _ = process.communicate(timeout=RUN_TIMEOUT_S)
    if process.returncode != 0:
        raise RuntimeError(f"a workload ended with code {process.returncode}")
    figures: dict[str, float] = json.loads(out.splitlines()[-1])
    return figures


def run(name: str, *arguments: object, **options: object) -> dict[str, float]:
    return finish(start(name, *arguments, **options))


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps(WORKLOADS[asked["name"]](*asked["arguments"], **asked["options"])))
