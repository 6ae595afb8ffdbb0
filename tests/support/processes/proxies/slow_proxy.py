"""A slow proxy to a broker: TCP that forwards only so many bytes a second to it."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Self

_PIECE = 4096


class SlowProxy:
    """A slow proxy. It listens when it is made; set the broker's port as `target` before a client connects.

    `bytes_per_s` limits each connection, towards the broker only, and may change; None means unlimited, 0 stops.
    """

    def __init__(self, bytes_per_s: float | None, header: bytes = b"") -> None:
        """`header` starts each connection to the broker."""
        self.bytes_per_s = bytes_per_s
        self.header = header
        self.target = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        # Bytes that wait in buffers are not on the broker.
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _PIECE)
        self._closed = threading.Event()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    @property
    def port(self) -> int:
        port: int = self._listening.getsockname()[1]
        return port

    def __enter__(self) -> Self:
        self._begin(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        for each in (self._listening, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(10)

    def _begin(self, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closed.is_set():
            with suppress(OSError):
                client, _ = self._listening.accept()
                broker = socket.create_connection(("127.0.0.1", self.target))
                broker.sendall(self.header)
                self._sockets += [client, broker]
                self._begin(partial(self._carry, client, broker, is_slow=True))
                self._begin(partial(self._carry, broker, client, is_slow=False))

    def _carry(self, source: socket.socket, sink: socket.socket, *, is_slow: bool) -> None:
        with suppress(OSError):
            while piece := source.recv(_PIECE):
                while is_slow and self.bytes_per_s == 0 and not self._closed.is_set():
                    self._closed.wait(0.05)
                sink.sendall(piece)
                if is_slow and self.bytes_per_s:
                    self._closed.wait(len(piece) / self.bytes_per_s)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
