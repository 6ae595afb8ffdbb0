"""All kinds of clients at once against one listener, in a separate process.

Call: `python -m tests.support.processes.clients.mixed_load`. The arguments are the port and the numbers of a `Load` as
JSON. A line `ready` says that all are connected. After a line on standard input the process prints what the clients
have seen as JSON, and ends.
"""

import json
import random
import resource
import selectors
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from tests.support.processes.clients.wire_client import request_frame

WATCHED = "watched"
"""The topic that all consumers read, on its partition 0."""
ALL_TOPICS = {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
_SIZE = struct.Struct(">i")
_HIGH_WATERMARK_AT = 4 + 4 + 2 + 4 + 4 + 2 + len(WATCHED) + 4 + 4 + 2
_CONNECTS_BETWEEN_PAUSES = 20


@dataclass(frozen=True, slots=True)
class Load:
    """Number of clients of each kind; `storm` is a rate of connections a second, each closed at once."""

    consumers: int
    idle: int
    half_sent: int
    slow_readers: int
    pipelining: int
    storm: int
    requests_at_once: int = 200

    @property
    def others(self) -> int:
        """Connections beside the consumers' and the storm's."""
        return self.idle + self.half_sent + self.slow_readers + self.pipelining


@dataclass(slots=True)
class Seen:
    """Answers by kind of client, connections of the storm, and what must not happen."""

    fetched: int = 0
    pipelined_bytes: int = 0
    stormed: int = 0
    hung_up: int = 0


class _Client:
    """One connection; `more` receives what has arrived, and returns what to send."""

    def __init__(self, port: int, first: bytes, more: Callable[[bytearray], bytes] | None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setblocking(False)
        self.more = more
        self.received = bytearray()
        self.unsent = memoryview(first)

    def write(self) -> None:
        while self.unsent:
            try:
                self.unsent = self.unsent[self.socket.send(self.unsent) :]
            except BlockingIOError:
                return

    def read(self) -> bool:
        """Read once; return whether the connection is still open."""
        try:
            data = self.socket.recv(1 << 18)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        assert self.more is not None
        self.received += data
        reply = self.more(self.received)
        if reply:
            self.unsent = memoryview(bytes(self.unsent) + reply)
        return True


def fetch_frame(offset: int) -> bytes:
    partition = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    fields = {"replica_id": -1, "max_wait": 60_000, "min_bytes": 1, "topics": [], "forgotten_topics_data": []}
    return request_frame("fetch", 11, 1, fields | {"topics": [{"topic": WATCHED, "partitions": [partition]}]})


class Mixture:
    """The connections of a load and the one thread that serves them."""

    def __init__(self, port: int, load: Load) -> None:
        self.seen = Seen()
        self._port = port
        self._load = load
        self._frames: dict[int, bytes] = {}
        self._selector = selectors.DefaultSelector()
        metadata = request_frame("metadata", 12, 1, ALL_TOPICS)
        self._small = request_frame("api_versions", 0, 1, {})
        half = metadata[: len(metadata) // 2]
        self._silent = [_Client(port, first, None) for first in [b""] * load.idle + [half] * load.half_sent]
        self._silent += [_Client(port, metadata * load.requests_at_once, None) for _ in range(load.slow_readers)]
        self._talking = [_Client(port, fetch_frame(0), self._on_fetched) for _ in range(load.consumers)]
        block = self._small * load.requests_at_once
        self._talking += [_Client(port, block, self._on_answers) for _ in range(load.pipelining)]

    def _on_fetched(self, received: bytearray) -> bytes:
        if len(received) < 4 or len(received) < 4 + _SIZE.unpack_from(received)[0]:
            return b""
        self.seen.fetched += 1
        (high_watermark,) = struct.unpack_from(">q", received, 4 + _HIGH_WATERMARK_AT)
        received.clear()
        if high_watermark not in self._frames:
            self._frames = {high_watermark: fetch_frame(high_watermark)}
        return self._frames[high_watermark]

    def _on_answers(self, received: bytearray) -> bytes:
        """As many new requests as answers arrived, which keeps the pipeline full, whatever the answers are."""
        answered = 0
        at = 0
        while len(received) - at >= 4 and len(received) - at >= 4 + _SIZE.unpack_from(received, at)[0]:
            at += 4 + _SIZE.unpack_from(received, at)[0]
            answered += 1
        del received[:at]
        self.seen.pipelined_bytes += at
        return self._small * answered

    def run(self, over: threading.Event) -> None:
        for client in self._silent:
            client.write()
        for client in self._talking:
            client.write()
            self._selector.register(client.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, client)
        while not over.is_set():
            for key, events in self._selector.select(0.1):
                client = key.data
                if events & selectors.EVENT_READ and not client.read():
                    self.seen.hung_up += 1
                    self._selector.unregister(client.socket)
                    continue
                client.write()
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.unsent else 0)
                if key.events != wanted:
                    self._selector.modify(client.socket, wanted, client)

    def storm(self, over: threading.Event) -> None:
        """Connect in an open loop: as many connections a second as requested, unless the broker takes longer."""
        sources = random.Random(1)
        while self._load.storm and not over.wait(_CONNECTS_BETWEEN_PAUSES / self._load.storm):
            for _ in range(_CONNECTS_BETWEEN_PAUSES):
                source = f"127.0.{sources.randrange(1, 5)}.{sources.randrange(1, 250)}"
                try:
                    socket.create_connection(("127.0.0.1", self._port), timeout=5, source_address=(source, 0)).close()
                except OSError:
                    continue
                self.seen.stormed += 1


def raise_descriptor_limit() -> int:
    """Raise the limit of open files to the hard limit, and return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def main() -> None:
    raise_descriptor_limit()
    mixture, over = Mixture(int(sys.argv[1]), Load(**json.loads(sys.argv[2]))), threading.Event()
    threads = [threading.Thread(target=work, args=(over,)) for work in (mixture.run, mixture.storm)]
    for thread in threads:
        thread.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    over.set()
    for thread in threads:
        thread.join()
    sys.stdout.write(json.dumps(asdict(mixture.seen) | {"ended_s": time.monotonic()}) + "\n")


if __name__ == "__main__":
    main()
