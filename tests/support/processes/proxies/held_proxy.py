"""A proxy to a broker that holds frames back as a test chooses, without either side noticing.

with HeldProxy() as proxy:
    proxy.target = broker.port()
    proxy.holds = lambda passing: passing.is_push           # connections of the push protocol are half-open now
    proxy.holds = lambda passing: passing.kind == START     # or: the client never receives a start
    proxy.cut()                                             # held frames are lost, and their connections end
    proxy.release()
"""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Self

from kafka_bytes.own_keys import type_of

END = 0
"""The kind of an end of a connection, which can be held like a frame."""
_SIZE = struct.Struct(">i")


class Passing(NamedTuple):
    """A frame that is about to be forwarded."""

    to_broker: bool
    is_push: bool
    """Whether the message's connection began with a frame of the push protocol."""
    kind: int | None
    """The request type id at its start, if it is one of the push protocol."""


class _Pair:
    """Both ends of one connection; one thread for each direction."""

    def __init__(self, client: socket.socket, broker: socket.socket) -> None:
        self.client, self.broker = client, broker
        self.is_push = False
        self.is_held = False

    def close(self) -> None:
        for each in (self.client, self.broker):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class HeldProxy:
    """A proxy that can hold messages. It listens when it is made.

    Set the broker's port as `target` before a client connects.
    """

    def __init__(self) -> None:
        self.target = 0
        self._holds: Callable[[Passing], bool] = _nothing
        self._changed = threading.Condition()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._is_closed = False
        self._pairs: list[_Pair] = []
        self._threads: list[threading.Thread] = []

    @property
    def port(self) -> int:
        port: int = self._listening.getsockname()[1]
        return port

    @property
    def holds(self) -> Callable[[Passing], bool]:
        """Returns whether to hold a frame; called for each frame, and again for held frames when it changes."""
        return self._holds

    @holds.setter
    def holds(self, holds: Callable[[Passing], bool]) -> None:
        with self._changed:
            self._holds = holds
            self._changed.notify_all()

    @property
    def held(self) -> int:
        """Number of connections with a held frame."""
        with self._changed:
            return sum(pair.is_held for pair in self._pairs)

    def release(self) -> None:
        self.holds = _nothing

    def cut(self) -> None:
        """End the connections with a held frame; the frame is lost."""
        with self._changed:
            for pair in self._pairs:
                if pair.is_held:
                    pair.close()
            self._pairs = [pair for pair in self._pairs if not pair.is_held]
            self._changed.notify_all()

    def __enter__(self) -> Self:
        self._begin(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for pair in self._pairs:
            pair.close()
        for thread in self._threads:
            thread.join(10)

    def _begin(self, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while not self._is_closed:
                client, _ = self._listening.accept()
                try:
                    broker = socket.create_connection(("127.0.0.1", self.target))
                except OSError:
                    client.close()
                    continue
                for each in (client, broker):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                pair = _Pair(client, broker)
                self._pairs.append(pair)
                ways = [partial(self._carry, pair, to_broker=to_broker) for to_broker in (True, False)]
                self._begin(partial(self._serve, pair, *ways))

    def _serve(self, pair: _Pair, to_broker: Callable[[], None], to_client: Callable[[], None]) -> None:
        other = threading.Thread(target=to_client, daemon=True)
        other.start()
        to_broker()
        other.join()
        pair.client.close()
        pair.broker.close()

    def _carry(self, pair: _Pair, *, to_broker: bool) -> None:
        source, sink = (pair.client, pair.broker) if to_broker else (pair.broker, pair.client)
        with suppress(OSError):
            while (body := _frame(source)) is not None:
                kind = type_of(memoryview(body))
                pair.is_push = pair.is_push or kind is not None
                if not self._passes(pair, Passing(to_broker, pair.is_push, kind if pair.is_push else None)):
                    return
                sink.sendall(_SIZE.pack(len(body)) + body)
        if self._passes(pair, Passing(to_broker, pair.is_push, END)):
            with suppress(OSError):
                sink.shutdown(socket.SHUT_WR)

    def _passes(self, pair: _Pair, passing: Passing) -> bool:
        """Wait until the frame may pass; False if it never does."""
        with self._changed:
            while not self._is_closed and pair in self._pairs and self._holds(passing):
                pair.is_held = True
                self._changed.wait()
            pair.is_held = False
            return not self._is_closed and pair in self._pairs


def _nothing(passing: Passing) -> bool:
    del passing
    return False


def _frame(source: socket.socket) -> bytes | None:
    head = _exactly(source, _SIZE.size)
    return None if head is None else _exactly(source, _SIZE.unpack(head)[0])


def _exactly(source: socket.socket, count: int) -> bytes | None:
    found = bytearray()
    while len(found) < count:
        piece = source.recv(min(count - len(found), 1 << 16))
        if not piece:
            return None
        found += piece
    return bytes(found)
