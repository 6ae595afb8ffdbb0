"""A client with almost no cost: it encodes a batch once and sends it repeatedly, and discards fetched bytes.

librdkafka needs more than one of the two cores for itself; with it, large batches measure the client. The batches are
like those of any producer (record batch v2, uncompressed). Both subjects serve Produce v7 and Fetch v11.
"""

import socket
import ssl
import struct
import time

from kafka_bytes.batches import encode_batch

IN_FLIGHT = 5
API_VERSIONS = b"\x00\x00\x00\x15\x00\x12\x00\x00\x00\x00\x00\x01\x00\x0bsluicegate!"
_CLIENT = b"wire"
_HEAD = struct.Struct(">hhih")
_BATCH = struct.Struct(">qi")
_LAST_OFFSET_DELTA_AT = 23


def produce_frame(topic: str, size: int, batch_bytes: int, acks: int = 1) -> bytes:
    """Return one Produce request for partition 0 with as many messages of `size` bytes as fit."""
    count = max(1, batch_bytes // (size + 12))
    return produce_request(topic, encode_batch([(None, bytes(size))] * count, int(time.time() * 1000)), acks)


def produce_request(topic: str, batch: bytes, acks: int = 1) -> bytes:
    name = topic.encode()
    body = struct.pack(">hhiih", -1, acks, 30_000, 1, len(name)) + name + struct.pack(">iii", 1, 0, len(batch)) + batch
    head = _HEAD.pack(0, 7, 1, len(_CLIENT)) + _CLIENT
    return struct.pack(">i", len(head) + len(body)) + head + body


def fetch_frame(topic: str, offset: int, max_bytes: int, *, is_committed: bool = False, partition: int = 0) -> bytes:
    """Return one Fetch request for a partition; `is_committed`: with the isolation level read_committed."""
    name = topic.encode()
    body = struct.pack(">iiiibii", -1, 0, 1, max_bytes, is_committed, 0, -1)
    body += struct.pack(">ih", 1, len(name)) + name + struct.pack(">iiiqqi", 1, partition, -1, offset, -1, max_bytes)
    body += struct.pack(">ih", 0, 0)
    head = _HEAD.pack(1, 11, 1, len(_CLIENT)) + _CLIENT
    return struct.pack(">i", len(head) + len(body)) + head + body


def connected(host: str, port: int, trusted: str | None = None) -> socket.socket:
    """Connect, by TLS if `trusted` is the file of the certificates to trust."""
    plain = socket.create_connection((host, port))
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if trusted is None:
        return plain
    return ssl.create_default_context(cafile=trusted).wrap_socket(plain, server_hostname=host)


def produce_wire(
    host: str,
    port: int,
    topic: str,
    *,
    size: int,
    batch_bytes: int,
    megabytes: float,
    acks: int = 1,
    trusted: str | None = None,
) -> dict[str, float]:
    """Produce a fixed number of bytes, because the first access to memory is slow for every subject."""
    frame = produce_frame(topic, size, batch_bytes, acks)
    count = max(1, batch_bytes // (size + 12))
    answered = 0
    with connected(host, port, trusted) as client:
        reader = client.makefile("rb", buffering=65536)
        for _ in range(IN_FLIGHT):
            client.sendall(frame)
        began = time.perf_counter()
        while answered * len(frame) < megabytes * 1_000_000:
            _check(reader.read(int.from_bytes(reader.read(4), "big")), topic)
            answered += 1
            client.sendall(frame)
        took = time.perf_counter() - began
    return {"messages_per_s": answered * count / took, "mb_per_s": answered * count * size / took / 1e6}


def produce_one_by_one(host: str, port: int, topic: str, *, seconds: float, acks: int) -> dict[str, float]:
    """Produce records of 100 bytes, each after the acknowledgement of the previous one."""
    frame = produce_frame(topic, 100, 1, acks)
    times: list[float] = []
    with socket.create_connection((host, port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = client.makefile("rb", buffering=65536)
        began = sent = time.perf_counter()
        while sent < began + seconds:
            client.sendall(frame)
            _check(reader.read(int.from_bytes(reader.read(4), "big")), topic)
            now = time.perf_counter()
            times.append(now - sent)
            sent = now
    times.sort()
    return {
        "messages_per_s": len(times) / seconds,
        "median_ms": times[len(times) // 2] * 1000,
        "p99_ms": times[int(len(times) * 0.99)] * 1000,
    }


def _check(answer: bytes, topic: str) -> None:
    """Raise RuntimeError if the only partition has an error."""
    at = 4 + 4 + 2 + len(topic) + 4 + 4
    code = int.from_bytes(answer[at : at + 2], "big")
    if code:
        raise RuntimeError(f"a produce request was refused with error {code}")


def consume_wire(
    host: str, port: int, topic: str, *, seconds: float, max_bytes: int, trusted: str | None = None
) -> dict[str, float]:
    """Consume partition 0 from its beginning repeatedly, one fetch at a time."""
    buffer = bytearray(2 * max_bytes + 65536)
    view = memoryview(buffer)
    total = offset = 0
    with connected(host, port, trusted) as client:
        began = time.perf_counter()
        while time.perf_counter() < began + seconds:
            client.sendall(fetch_frame(topic, offset, max_bytes))
            total += _receive(client, view)
            offset = _next_offset(view, topic)
        took = time.perf_counter() - began
    return {"mb_per_s": total / took / 1e6}


def _receive(client: socket.socket, view: memoryview) -> int:
    got = needed = 0
    while got < 4 or got < needed:
        got += client.recv_into(view[got : needed or None])
        if got >= 4:
            needed = int.from_bytes(view[:4], "big") + 4
    return got


def _next_offset(view: memoryview, topic: str) -> int:
    """Return the offset after the last complete batch, or 0, the beginning, if the response has none."""
    at = 4 + 4 + 4 + 2 + 4 + 4 + 2 + len(topic) + 4 + 4 + 2 + 8 + 8 + 8 + 4 + 4
    end = at + 4 + max(int.from_bytes(view[at : at + 4], "big", signed=True), 0)
    at += 4
    offset = 0
    while at + 61 <= end:
        base, length = _BATCH.unpack_from(view, at)
        if at + 12 + length > end:
            break
        delta = int.from_bytes(view[at + _LAST_OFFSET_DELTA_AT : at + _LAST_OFFSET_DELTA_AT + 4], "big")
        offset = base + delta + 1
        at += 12 + length
    return offset
