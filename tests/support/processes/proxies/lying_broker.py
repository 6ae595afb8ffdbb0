"""A broker that answers each kind of frame with one lie after the other, and then with the truth.

It is the coordinator, and the leader of the partition that it lets its consumers read. It closes the connection after a
lie.
"""

import socket
import struct
import threading
from typing import Self

from kafka_bytes import own_keys
from kafka_bytes.push import layouts
from kafka_bytes.push.messages import (
    Broker,
    ClusterMetadataResponse,
    PartitionOffset,
    PingRequest,
    RegisterConsumerResponse,
    StartFetcherRequest,
    ThreadOwnership,
)

RUBBISH = (
    struct.pack(">i", -1),
    struct.pack(">ihB", 4, 0, 0),
    struct.pack(">iB", 1, 0),
    struct.pack(">ihhqq", 20, 30_005, 0, -1, -1),
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
)
"""None of these is an answer or a call."""
CALL, FETCH, METADATA = 0, 1, 3
_PING_EVERY_S = 0.05
_WAIT_S = 30.0


class Liar:
    """A broker that lies: a server socket and its threads, which serve until the block ends."""

    def __init__(self, topic: str, consumer_id: str) -> None:
        self._topic, self._consumer_id = topic, consumer_id
        self._server = socket.create_server(("127.0.0.1", 0))
        self._port: int = self._server.getsockname()[1]
        kinds = (own_keys.CLUSTER_METADATA, own_keys.REGISTER_CONSUMER, CALL, FETCH)
        self._lies = {kind: list(RUBBISH) for kind in kinds}
        self._lies[FETCH].append(self._wrong_checksum())
        self._closed = threading.Event()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def has_told_all(self) -> bool:
        return not any(self._lies.values())

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._server.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(_WAIT_S)
        with connection:
            try:
                self._answer(connection)
            except OSError:
                # The client has hung up, which is right.
                return

    def _answer(self, connection: socket.socket) -> None:
        frame = connection.recv(4096)
        kind: int = struct.unpack_from(">h", frame, 4)[0]
        if self._lie(kind, connection):
            return
        if kind == own_keys.CLUSTER_METADATA:
            found = ClusterMetadataResponse(0, 1, (self._broker(),))
            connection.sendall(layouts.CLUSTER_METADATA_RESPONSE.write(found))
        elif kind == METADATA:
            connection.sendall(self._metadata())
        elif kind == own_keys.REGISTER_CONSUMER:
            connection.sendall(layouts.REGISTER_CONSUMER_RESPONSE.write(RegisterConsumerResponse(0)))
            if not self._lie(CALL, connection):
                self._call(connection)

    def _lie(self, kind: int, connection: socket.socket) -> bool:
        lies = self._lies.get(kind)
        if not lies:
            return False
        connection.sendall(lies.pop(0))
        return True

    def _call(self, connection: socket.socket) -> None:
        part = PartitionOffset(self._topic, "1-0", 0)
        owned = ThreadOwnership(f"{self._consumer_id}-0", (part,))
        started = StartFetcherRequest(self._consumer_id, (owned,), (self._broker(),))
        connection.sendall(layouts.START_FETCHER_REQUEST.write(started))
        while connection.recv(4096) and not self._closed.wait(_PING_EVERY_S):
            connection.sendall(layouts.PING_REQUEST.write(PingRequest(self._consumer_id, 0)))

    def _broker(self) -> Broker:
        return Broker(1, "127.0.0.1", self._port)

    def _metadata(self) -> bytes:
        """A response of version 1."""
        brokers = struct.pack(">ii", 1, 1) + _string("127.0.0.1") + struct.pack(">ih", self._port, -1)
        topic = struct.pack(">iih", 1, 1, 0) + _string(self._topic) + struct.pack(">Bi", 0, 1)
        return _answer(brokers + topic + struct.pack(">hiiii", 0, 0, 1, 0, 0))

    def _wrong_checksum(self) -> bytes:
        """A response to a Fetch of version 4, with a batch that has no records."""
        batch = struct.pack(">qiiBI", 0, 49, 0, 2, 0xBAD) + bytes(40)
        topic = struct.pack(">ii", 0, 1) + _string(self._topic)
        part = struct.pack(">iihqqii", 1, 0, 0, 0, 0, -1, len(batch))
        return _answer(topic + part + batch)


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _answer(body: bytes) -> bytes:
    """A response frame with the correlation id of examples/thin-consumer."""
    return struct.pack(">ii", len(body) + 4, 1) + body
