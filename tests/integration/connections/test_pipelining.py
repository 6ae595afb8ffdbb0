"""Clients that send thousands of requests at once and read every answer: other clients are served in between."""

import select
import socket
import threading
import time

import pytest

from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.wire_client import WireClient, request_frame

PIPELINING_CLIENTS = 40
REQUESTS_AT_ONCE = 2_000
MEASURED_S = 6.0
ALL_TOPICS = {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
ROUND_TRIP_S_MAX = 2.0
"""An idle broker takes milliseconds; without a bound on a connection's turn it was 8 to 23 s."""


class Pipelining:
    """All clients in one thread: it sends as much as the broker accepts, and reads every answer."""

    def __init__(self, port: int) -> None:
        self.answered_bytes = 0
        self._sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(PIPELINING_CLIENTS)]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Pipelining":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for client in self._sockets:
            client.close()

    def _run(self) -> None:
        block = memoryview(request_frame("metadata", 12, 1, ALL_TOPICS) * REQUESTS_AT_ONCE)
        unsent = dict.fromkeys(self._sockets, block)
        for client in self._sockets:
            client.setblocking(False)
        while not self._over.is_set():
            readable, writable, _ = select.select(self._sockets, self._sockets, [], 0.1)
            for client in readable:
                received = client.recv(1 << 20)
                assert received, "the broker hung up"
                self.answered_bytes += len(received)
            for client in writable:
                unsent[client] = unsent[client][client.send(unsent[client]) :] or block


@pytest.mark.full
def test_forty_pipelining_clients_do_not_hold_up_another_one_nor_the_controller() -> None:
    with BrokerProcess(properties={"broker.session.timeout.ms": "3000"}) as broker:
        round_trips_s = []
        with WireClient(("127.0.0.1", broker.port())) as client, Pipelining(broker.port()) as others:
            end_s = time.monotonic() + MEASURED_S
            while time.monotonic() < end_s:
                began_s = time.monotonic()
                client.ask("metadata", 12, **ALL_TOPICS)
                round_trips_s.append(time.monotonic() - began_s)
        assert others.answered_bytes > 1_000_000
        assert max(round_trips_s) < ROUND_TRIP_S_MAX
        assert "fenced by" not in broker.log()
        assert broker.get("/readyz")[0] == 200
        print(
            f"{len(round_trips_s)} round trips, the longest {max(round_trips_s):.3f} s; {others.answered_bytes} bytes"
        )
