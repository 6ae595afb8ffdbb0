"""Many connections, at once or at a pace: when each was answered or closed, or whether it still waits."""

import selectors
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

ASKED = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""ApiVersions, version 0, without a client ID."""


@dataclass(eq=False, slots=True)
class Visitor:
    socket: socket.socket
    came_s: float
    answered_s: float | None = None
    closed_s: float | None = None


class Crowd:
    """Connections from one address to one listener; all are closed at the end of the block."""

    def __init__(self, address: tuple[str, int], source: str) -> None:
        self._address = address
        self._source = source
        self._selector = selectors.DefaultSelector()
        self.visitors: list[Visitor] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for visitor in self.visitors:
            visitor.socket.close()
        self._selector.close()

    @property
    def answered(self) -> list[Visitor]:
        return [visitor for visitor in self.visitors if visitor.answered_s is not None]

    @property
    def closed(self) -> list[Visitor]:
        return [visitor for visitor in self.visitors if visitor.closed_s is not None]

    @property
    def staying(self) -> list[Visitor]:
        return [visitor for visitor in self.answered if visitor.closed_s is None]

    @property
    def decided(self) -> bool:
        return all(v.answered_s is not None or v.closed_s is not None for v in self.visitors)

    def come(self, count: int, every_s: float = 0.0) -> None:
        """Open connections at once, or one after another while the others are watched."""
        due_s = time.monotonic()
        for _ in range(count):
            self._connect()
            due_s += every_s
            if every_s:
                self.watch(due_s - time.monotonic())

    def _connect(self) -> None:
        one = socket.socket()
        one.setblocking(False)
        one.bind((self._source, 0))
        one.connect_ex(self._address)
        visitor = Visitor(one, time.monotonic())
        self.visitors.append(visitor)
        self._selector.register(one, selectors.EVENT_WRITE, visitor)

    def watch(self, within_s: float, until: Callable[[], bool] = lambda: False) -> None:
        """Watch the connections for that long, or until a condition is true."""
        deadline = time.monotonic() + within_s
        while not until() and (left_s := deadline - time.monotonic()) > 0:
            for key, events in self._selector.select(left_s):
                self._attend(key.data, events)

    def decide(self, within_s: float) -> None:
        self.watch(within_s, lambda: self.decided)

    def _attend(self, visitor: Visitor, events: int) -> None:
        now_s = time.monotonic()
        try:
            if events & selectors.EVENT_WRITE:
                visitor.socket.send(ASKED)
                self._selector.modify(visitor.socket, selectors.EVENT_READ, visitor)
            elif visitor.socket.recv(65536):
                visitor.answered_s = visitor.answered_s or now_s
            else:
                self._lose(visitor, now_s)
        except (ConnectionResetError, BrokenPipeError):
            self._lose(visitor, now_s)

    def _lose(self, visitor: Visitor, now_s: float) -> None:
        visitor.closed_s = now_s
        self._selector.unregister(visitor.socket)

    def leave(self, count: int) -> None:
        """Close the first `count` connections that were answered."""
        for visitor in self.staying[:count]:
            self._lose(visitor, time.monotonic())
            visitor.socket.close()

    def answered_within(self, seconds: float) -> int:
        """Return the number of connections answered within that time, from the start of the crowd."""
        first_s = min(visitor.came_s for visitor in self.visitors)
        return sum(v.answered_s is not None and v.answered_s - first_s <= seconds for v in self.visitors)

    def longest_wait_s(self) -> float:
        return max((v.answered_s or v.closed_s or time.monotonic()) - v.came_s for v in self.visitors)

    def last_answer_s(self) -> float:
        first_s = min(visitor.came_s for visitor in self.visitors)
        return max((v.answered_s - first_s for v in self.visitors if v.answered_s is not None), default=0.0)
