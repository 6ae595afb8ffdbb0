"""Requests that no client sends, against real processes: frames that are cut, changed, invented or never finished.

The process does not restart, its memory stays bounded, its log stays short, and other clients are served as before.
Frames are drawn from a fixed seed.
"""

import random
import select
import socket
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.apis.table import BROKER_APIS, CONTROLLER_APIS
from broker_runtime.wire.versions import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS, METADATA
from tests.support.processes.broker_process import CLUSTER_ID, BrokerProcess
from tests.support.processes.ports import free_port
from tests.support.requests.hostile_requests import ARRAY_BOMB, framed, hostile, well_formed

SEED = 20_261_121
OPEN_MAX = 100
ANSWER_TIMEOUT_S = 30.0
PENDING_TIMEOUT_S = 0.2
"""A changed Fetch may wait for records for as long as it requests."""
HALF_FRAMES = 300
GROWTH_BYTES_MAX = 24 * 1024 * 1024
LOG_LINES_MAX = 40
LOG_LINES_MAX_EACH_S = 1.0
"""One line in ten seconds for each of about ten kinds, although thousands of frames are refused."""


class Storm:
    """One connection for each frame, with a bounded number open at a time."""

    def __init__(self, port: int) -> None:
        self._address = ("127.0.0.1", port)
        self._open: deque[socket.socket] = deque()
        self.sent = 0

    def send(self, frame: bytes) -> None:
        if len(self._open) >= OPEN_MAX:
            self._end(self._open.popleft())
        one = socket.create_connection(self._address, timeout=ANSWER_TIMEOUT_S)
        one.sendall(frame)
        self._open.append(one)
        self.sent += 1

    def finish(self) -> None:
        while self._open:
            self._end(self._open.popleft())

    def _end(self, one: socket.socket) -> None:
        """Wait for an answer, a close, or, for a request that may wait, nothing."""
        with one:
            select.select([one], [], [], PENDING_TIMEOUT_S)


def answer(port: int, frame: bytes) -> bytes:
    """Return the first bytes of the reply; empty if the connection was closed instead."""
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_TIMEOUT_S) as one:
        one.sendall(frame)
        try:
            return one.recv(65536)
        except ConnectionResetError:
            return b""


def versions(apis: tuple[ApiSpec[Any], ...]) -> Iterator[tuple[ApiSpec[Any], int]]:
    for api in apis:
        for version in range(api.versions[0], api.versions[1] + 1):
            yield api, version


def survived(node: BrokerProcess, pid: int, resident_bytes: int, took_s: float) -> None:
    assert node.poll() is None, node.log()[-4000:]
    assert node.pid == pid
    assert node.get("/readyz")[0] == 200
    log = node.log()
    assert "Traceback" not in log, log[-6000:]
    assert "handler-failed" not in log
    complaints = [line for line in log.splitlines() if "WARNING" in line or "ERROR" in line]
    assert 0 < len(complaints) <= LOG_LINES_MAX + took_s * LOG_LINES_MAX_EACH_S, "\n".join(complaints)
    assert node.resident_bytes() - resident_bytes < GROWTH_BYTES_MAX


def refused(node: BrokerProcess, kind: str = "") -> float:
    return sum(count for name, count in node.metrics().items() if "refused_total{" in name and kind in name)


@pytest.mark.full
def test_a_storm_of_hostile_frames_leaves_a_broker_as_it_was() -> None:
    rng = random.Random(SEED)
    with BrokerProcess() as broker:
        pid, began_s = broker.pid, time.monotonic()
        storm = Storm(broker.port())
        for api, version in versions(BROKER_APIS):
            storm.send(well_formed(api, version, rng))
        storm.finish()
        resident_bytes = broker.resident_bytes()
        half = framed(METADATA, 9, bytes(200))[:100]
        waiting = [socket.create_connection(("127.0.0.1", broker.port())) for _ in range(HALF_FRAMES)]
        for one in waiting:
            one.sendall(half)
        for api, version in versions(BROKER_APIS):
            for frame in hostile(api, version, rng):
                storm.send(frame)
        storm.finish()
        for one in waiting:
            one.close()
        assert storm.sent > 3500
        assert refused(broker) > 1000
        survived(broker, pid, resident_bytes, time.monotonic() - began_s)
        delivered: list[object] = []
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("after-the-storm", b"calm", on_delivery=lambda error, _: delivered.append(error))
        assert producer.flush(60) == 0
        assert delivered == [None]
        assert "after-the-storm" in AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=60).topics


def test_a_storm_of_hostile_frames_leaves_a_controller_as_it_was() -> None:
    rng = random.Random(SEED)
    port = free_port()
    properties = {
        "cluster.id": CLUSTER_ID,
        "process.roles": "controller",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "",
    }
    with BrokerProcess(node_id=1000, properties=properties) as controller:
        pid, began_s = controller.pid, time.monotonic()
        storm = Storm(port)
        for api, version in versions(CONTROLLER_APIS):
            storm.send(well_formed(api, version, rng))
        storm.finish()
        resident_bytes = controller.resident_bytes()
        for api, version in versions(CONTROLLER_APIS):
            for frame in hostile(api, version, rng):
                storm.send(frame)
        storm.finish()
        survived(controller, pid, resident_bytes, time.monotonic() - began_s)


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess() as started:
        yield started


@pytest.mark.parametrize(("key", "version"), [(DESCRIBE_CLIENT_QUOTAS, 1), (METADATA, 12), (ALTER_CLIENT_QUOTAS, 1)])
def test_an_announced_array_of_four_thousand_million_ends_its_connection_only(
    broker: BrokerProcess, key: int, version: int
) -> None:
    assert answer(broker.port(), framed(key, version, ARRAY_BOMB)) == b""
    assert broker.poll() is None
    assert broker.get("/readyz")[0] == 200


def test_a_tag_that_is_newer_than_us_is_skipped(broker: BrokerProcess) -> None:
    plain = answer(broker.port(), framed(DESCRIBE_CLIENT_QUOTAS, 1, b"\x01\x00\x00"))
    assert plain
    assert answer(broker.port(), framed(DESCRIBE_CLIENT_QUOTAS, 1, b"\x01\x00\x01\x63\x03abc")) == plain


def test_a_refused_admin_request_is_counted_by_its_kind(broker: BrokerProcess) -> None:
    before = refused(broker, "malformed")
    assert answer(broker.port(), framed(ALTER_CLIENT_QUOTAS, 1, b"\x00\x00\x00")) == b"", "null where none is allowed"
    assert refused(broker, "malformed") == before + 1
