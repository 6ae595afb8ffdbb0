"""ListOffsets by time (KIP-79, KIP-734) in a log of many small batches: the client requests one offset at a time."""

import random
import socket
import struct
import time
from collections.abc import Iterator, Sequence

from benchmarks.wire import produce_request
from kafka_bytes.batches import encode_batch

MAX_TIMESTAMP = -3
"""Special timestamp in ListOffsets that selects the record with the greatest timestamp."""
_CLIENT = b"wire"
_IN_FLIGHT = 100
_STEP_MS = 10
"""Difference of the timestamps of consecutive batches."""
_ANSWER = struct.Struct(">ihqq")
_SEED = 1


def produce_in_time(host: str, port: int, topic: str, *, batches: int) -> dict[str, float]:
    """Produce batches of one small record with increasing timestamps, and return the first timestamp."""
    first_ms = int(time.time() * 1000) - batches * _STEP_MS
    with socket.create_connection((host, port)) as client:
        reader = client.makefile("rb", buffering=65536)
        for frames in _windows(topic, batches, first_ms):
            client.sendall(b"".join(frames))
            for _ in frames:
                reader.read(int.from_bytes(reader.read(4), "big"))
    return {"first_ms": first_ms}


def _windows(topic: str, batches: int, first_ms: int) -> Iterator[Sequence[bytes]]:
    for start in range(0, batches, _IN_FLIGHT):
        numbers = range(start, min(start + _IN_FLIGHT, batches))
        yield [
            produce_request(topic, encode_batch([(None, b"small")], first_ms + number * _STEP_MS)) for number in numbers
        ]


def list_offsets_by_time(
    host: str, port: int, topic: str, *, batches: int, first_ms: int, looks: int
) -> dict[str, float]:
    """Return median durations: of a request with a random time, and of one for the greatest timestamp.

    Raises RuntimeError for a wrong answer.
    """
    chosen = random.Random(_SEED)
    with socket.create_connection((host, port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        by_time, latest = [], []
        for _ in range(looks):
            offset = chosen.randrange(batches)
            by_time.append(_look(client, topic, first_ms + offset * _STEP_MS, offset))
            latest.append(_look(client, topic, MAX_TIMESTAMP, batches - 1))
    return {"by_time_ms": sorted(by_time)[looks // 2] * 1000, "latest_ms": sorted(latest)[looks // 2] * 1000}


def _look(client: socket.socket, topic: str, timestamp_ms: int, expected: int) -> float:
    """Return the duration in seconds. ListOffsets v7 is the first version with the greatest timestamp."""
    name = topic.encode()
    head = struct.pack(">hhih", 2, 7, 1, len(_CLIENT)) + _CLIENT + b"\0"
    partition = struct.pack(">iiq", 0, -1, timestamp_ms) + b"\0"
    body = struct.pack(">ib", -1, 0) + b"\2" + bytes([len(name) + 1]) + name + b"\2" + partition + b"\0\0"
    began = time.perf_counter()
    client.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
    size = int.from_bytes(_exactly(client, 4), "big")
    answer = _exactly(client, size)
    took = time.perf_counter() - began
    # Skip correlation ID, tags, throttle time, one topic with its name, one partition.
    at = 4 + 1 + 4 + 1 + 1 + len(name) + 1
    _, error, _, offset = _ANSWER.unpack_from(answer, at)
    if error or offset != expected:
        raise RuntimeError(f"offset {offset} and error {error} for the timestamp of offset {expected}")
    return took


def _exactly(client: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        got += client.recv(size - len(got)) or _ended()
    return got


def _ended() -> bytes:
    raise RuntimeError("the broker hung up")
