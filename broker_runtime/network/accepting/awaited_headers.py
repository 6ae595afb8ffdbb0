"""Accepted sockets of proxies that have not sent their PROXY header yet. Shell."""

import socket
from asyncio import AbstractEventLoop, TimerHandle
from collections import deque
from collections.abc import Callable
from functools import partial

from broker_runtime.network.settings import NetworkLimits
from broker_runtime.network.sockets.proxy_header import HeaderOutcome, PassedOn, ProxyHeader, ProxyHeaderError

_CLOSES_PER_SLICE = 100
"""Closing one takes some 20 microseconds."""

Peer = tuple[str, int]
Arrived = Callable[[socket.socket, Peer, PassedOn, float], None]
"""Function that takes over a socket of which only the header was read.

Its arguments are the socket, the proxy, the header, and the waited seconds.
"""
Refused = Callable[[Peer, HeaderOutcome], None]
"""Function that is called after the socket was closed."""


class AwaitedHeaders:
    """The sockets from proxies whose header has not arrived yet. `now` returns seconds."""

    __slots__ = ("_arrived", "_ending", "_limits", "_loop", "_now", "_refused", "_timer", "_waiting")

    def __init__(
        self,
        loop: AbstractEventLoop,
        now: Callable[[], float],
        limits: NetworkLimits,
        arrived: Arrived,
        refused: Refused,
    ) -> None:
        self._loop = loop
        self._now = now
        self._limits = limits
        self._arrived = arrived
        self._refused = refused
        self._waiting: dict[socket.socket, tuple[Peer, ProxyHeader, float]] = {}
        """The proxy, the header and the deadline in seconds of each socket, in the order of the deadlines."""
        self._ending: deque[tuple[socket.socket, Peer]] = deque()
        self._timer: TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting) + len(self._ending)

    def add(self, accepted: socket.socket, peer: Peer) -> None:
        """Wait for the header of an accepted socket. Most proxies send it at once, so it is read at once."""
        overdue_s = self._now() + self._limits.proxy_header_timeout_s
        self._waiting[accepted] = peer, ProxyHeader(self._limits.proxy_header_max_bytes), overdue_s
        self._read(accepted)
        if accepted in self._waiting:
            self._loop.add_reader(accepted.fileno(), partial(self._read_on, accepted))
            if self._timer is None:
                self._arm(overdue_s)

    def _read_on(self, accepted: socket.socket) -> None:
        if accepted in self._waiting:
            self._read(accepted)

    def _read(self, accepted: socket.socket) -> None:
        _, header, overdue_s = self._waiting[accepted]
        try:
            while (data := accepted.recv(header.missing)) != b"":
                passed_on = header.receive(data)
                if passed_on is not None:
                    peer = self._taken(accepted)
                    waited_s = self._now() - overdue_s + self._limits.proxy_header_timeout_s
                    self._arrived(accepted, peer, passed_on, waited_s)
                    return
        except BlockingIOError:
            return
        except ProxyHeaderError as error:
            self._refuse(accepted, error.outcome)
            return
        except OSError:
            pass
        self._refuse(accepted, HeaderOutcome.PROBE if header.is_empty else HeaderOutcome.CUT_OFF)

    def _taken(self, accepted: socket.socket) -> Peer:
        self._loop.remove_reader(accepted.fileno())
        return self._waiting.pop(accepted)[0]

    def _refuse(self, accepted: socket.socket, outcome: HeaderOutcome) -> None:
        peer = self._taken(accepted)
        accepted.close()
        self._refused(peer, outcome)

    def _arm(self, at_s: float) -> None:
        # Event loop timers have millisecond resolution and may fire slightly early: 1 ms more avoids a second wait.
        self._timer = self._loop.call_later(max(at_s - self._now(), 0) + 0.001, self._close_overdue)

    def _close_overdue(self) -> None:
        """Close sockets whose deadline has passed, at most `_CLOSES_PER_SLICE` per iteration of the event loop."""
        self._timer = None
        now_s = self._now()
        for _ in range(min(len(self._waiting), _CLOSES_PER_SLICE)):
            accepted, (_, _, overdue_s) = next(iter(self._waiting.items()))
            if overdue_s > now_s:
                break
            self._refuse(accepted, HeaderOutcome.OVERDUE)
        if self._waiting:
            self._arm(next(iter(self._waiting.values()))[2])

    def close_all(self) -> None:
        """Stop reading from the waiting sockets, and close them over several iterations of the event loop."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._ending.extend((accepted, peer) for accepted, (peer, _, _) in self._waiting.items())
        self._waiting.clear()
        self._end_some()

    def _end_some(self) -> None:
        for _ in range(min(len(self._ending), _CLOSES_PER_SLICE)):
            accepted, peer = self._ending.popleft()
            self._loop.remove_reader(accepted.fileno())
            accepted.close()
            self._refused(peer, HeaderOutcome.CLOSED)
        if self._ending:
            self._loop.call_soon(self._end_some)
