"""Connections that wait for their PROXY header, and the number of them that end in one iteration of the loop."""

import socket
from collections.abc import Callable
from typing import Any, cast

from broker_runtime.network.accepting.awaited_headers import AwaitedHeaders, Peer
from broker_runtime.network.settings import NetworkLimits
from broker_runtime.network.sockets.proxy_header import HeaderOutcome

FLOOD = 1_000
BEARABLE = 100
"""Limit of closes in one iteration: they take about two milliseconds."""


class Loop:
    """A loop with a manual time, and its callbacks by time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.readers: dict[int, Callable[[], None]] = {}
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
        self.readers[fd] = callback

    def remove_reader(self, fd: int) -> None:
        self.readers.pop(fd, None)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> object:
        self.timers.append((self.now_s + delay_s, callback))
        return self.timers[-1]

    def next_iteration(self) -> None:
        due = [timer for timer in self.timers if timer[0] <= self.now_s]
        self.timers = [timer for timer in self.timers if timer[0] > self.now_s]
        for _, callback in due:
            callback()


class Silent:
    """A connection that sends nothing."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    def recv(self, _: int) -> bytes:
        raise BlockingIOError

    def close(self) -> None:
        self._fd = -1


def test_a_flood_that_is_overdue_at_once_ends_over_iterations_and_is_told_as_overdue() -> None:
    loop, told = Loop(), list[HeaderOutcome]()

    def refused(_: Peer, outcome: HeaderOutcome) -> None:
        told.append(outcome)

    waiting = AwaitedHeaders(cast(Any, loop), lambda: loop.now_s, NetworkLimits(), lambda *_: None, refused)
    for fd in range(FLOOD):
        waiting.add(cast(socket.socket, Silent(fd)), ("10.0.0.1", fd))
    loop.now_s = 4.9
    loop.next_iteration()
    assert (len(waiting), told) == (FLOOD, [])
    loop.now_s = 60.0
    while waiting:
        before = len(waiting)
        loop.next_iteration()
        assert 0 < before - len(waiting) <= BEARABLE
        loop.now_s += 0.002
    assert (told, loop.readers) == ([HeaderOutcome.OVERDUE] * FLOOD, {})
