"""`python -m benchmarks.tls`: what TLS costs a broker: handshakes, bytes, and memory when idle.

One broker has a listener without TLS and one with it, and the same clients use both in turn. The clients share the
machine's cores with the broker. Handshakes are measured by the processor time of the broker, too.
"""

import argparse
import os
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Consumer, Producer

from tests.support.processes.broker_process import CLIENT_LISTENER, BrokerProcess
from tests.support.tls.secure_broker import LISTENER, TlsWorld

ROUNDS = 3
HANDSHAKES = 1_000
RECORDS, RECORD_BYTES = 40_000, 10_000
PATIENCE_S = 120.0
SETTLED_S = 3.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="interpreter of the broker, as of its image")
    python = parser.parse_args().python
    with tempfile.TemporaryDirectory() as folder:
        world = TlsWorld(Path(folder))
        print(f"idle, without a TLS listener: {idle_megabytes(BrokerProcess(python=python)):.1f} MB")
        secure = BrokerProcess(python=python, listeners=[LISTENER], properties=world.properties())
        print(f"idle, with a TLS listener: {idle_megabytes(secure):.1f} MB")
        with BrokerProcess(python=python, listeners=[LISTENER], properties=world.properties()) as broker:
            for number in range(ROUNDS):
                for line in (*handshakes(broker, world), *traffic(broker, world, number)):
                    print(line, flush=True)
            print(f"after it: {broker.resident_bytes() / 1e6:.1f} MB")


def idle_megabytes(broker: BrokerProcess) -> float:
    with broker:
        deadline_s = time.monotonic() + SETTLED_S
        while time.monotonic() < deadline_s:
            broker.get("/readyz")
        return broker.resident_bytes() / 1e6


def processor_s(broker: BrokerProcess) -> float:
    fields = Path(f"/proc/{broker.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def handshakes(broker: BrokerProcess, world: TlsWorld) -> Iterator[str]:
    """Connect one after another, by TLS 1.2 and 1.3, with new sessions and with resumed ones."""
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = ssl.create_default_context(cafile=str(world.trusted))
        context.maximum_version = context.minimum_version = version
        for kind in ("full", "resumed"):
            session: ssl.SSLSession | None = None
            reused = 0
            began_s, began_cpu_s = time.monotonic(), processor_s(broker)
            for _ in range(HANDSHAKES):
                address = (broker.host, broker.port(LISTENER))
                with (
                    socket.create_connection(address, timeout=PATIENCE_S) as plain,
                    without_delay(context, plain, session) as secure,
                ):
                    if kind == "resumed":
                        # The ticket of TLS 1.3 follows the handshake: the response has it before its own bytes.
                        secure.sendall(bytes.fromhex("0000000a00120000000000000000"))
                        secure.recv(1_000)
                        session = secure.session
                    reused += secure.session_reused or 0
            spent_s, cpu_s = time.monotonic() - began_s, processor_s(broker) - began_cpu_s
            yield (
                f"{version.name} {kind}: {HANDSHAKES / spent_s:.0f} handshakes/s, {cpu_s / HANDSHAKES * 1e3:.2f} ms of "
                f"the broker's processor each, {reused} resumed"
            )


def without_delay(context: ssl.SSLContext, plain: socket.socket, session: ssl.SSLSession | None) -> ssl.SSLSocket:
    """Shake hands. Like all Kafka clients it sends small packets at once."""
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(plain, server_hostname="localhost", session=session)


def traffic(broker: BrokerProcess, world: TlsWorld, number: int) -> Iterator[str]:
    for listener in (CLIENT_LISTENER, LISTENER):
        topic = f"bytes-{listener.lower()}-{number}"
        settings: dict[str, object] = {"bootstrap.servers": f"{broker.host}:{broker.port(listener)}"}
        if listener == LISTENER:
            settings |= world.confluent()
        megabytes = RECORDS * RECORD_BYTES / 1e6
        producer = Producer({**settings, "queue.buffering.max.kbytes": 1_000_000, "linger.ms": 5})
        value = os.urandom(RECORD_BYTES)
        began_s, began_cpu_s = time.monotonic(), processor_s(broker)
        for _ in range(RECORDS):
            producer.produce(topic, value)
        assert producer.flush(PATIENCE_S) == 0
        spent_s, cpu_s = time.monotonic() - began_s, processor_s(broker) - began_cpu_s
        yield f"{listener}: produced {megabytes / spent_s:.0f} MB/s, {megabytes / cpu_s:.0f} MB per processor second"
        consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        found = 0
        while not found:
            found += len(consumer.consume(1, PATIENCE_S))
        began_s, began_cpu_s = time.monotonic(), processor_s(broker)
        while found < RECORDS:
            found += len(consumer.consume(10_000, 0.1))
        spent_s, cpu_s = time.monotonic() - began_s, processor_s(broker) - began_cpu_s
        consumer.close()
        yield f"{listener}: fetched {megabytes / spent_s:.0f} MB/s, {megabytes / cpu_s:.0f} MB per processor second"


if __name__ == "__main__":
    main()
