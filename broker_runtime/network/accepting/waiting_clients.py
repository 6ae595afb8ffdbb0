"""Accepted clients of one listener that wait for a rate or a slot. Shell."""

import socket
from asyncio import AbstractEventLoop, TimerHandle
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

HELD_MAX = 256
"""Maximum number of clients that wait in the process; more wait in the kernel. Checking all of them takes 0.3 ms."""

_CHECK_S = 0.05
"""Time between two checks for waiting clients that have hung up."""


class WaitingClient(NamedTuple):
    """A client that waits to be admitted. With `by_proxy`, `peer` is a proxy's address and the client's is unknown."""

    accepted: socket.socket
    peer: tuple[str, int]
    by_proxy: bool
    arrived_s: float
    """Time when the connection was taken from the kernel, in seconds."""


class WaitingClients:
    """The sockets of waiting clients, in the order of their arrival, and the timers of their waits.

    `delays` says whether the quotas delay the first client; the quotas have not been asked about the others. `now`
    returns seconds; the timers call `wait_over` and `check`.
    """

    __slots__ = ("_check", "_check_timer", "_clients", "_loop", "_now", "_wait_over", "_wait_timer", "delays")

    def __init__(
        self,
        loop: AbstractEventLoop,
        now: Callable[[], float],
        wait_over: Callable[[], None],
        check: Callable[[], None],
    ) -> None:
        self.delays = False
        self._loop = loop
        self._now = now
        self._wait_over = wait_over
        self._check = check
        self._clients: deque[WaitingClient] = deque()
        self._wait_timer: TimerHandle | None = None
        self._check_timer: TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def behind(self) -> int:
        """Return the number of clients that use a place of the backlog.

        The client that the quotas delay uses none.
        """
        return len(self._clients) - self.delays

    @property
    def is_next(self) -> bool:
        """Return whether the quotas have to be asked about the first client now."""
        return not self.delays and bool(self._clients)

    @property
    def first(self) -> WaitingClient:
        return self._clients[0]

    def add(self, client: WaitingClient) -> None:
        """Append a client, and have it checked soon."""
        self._clients.append(client)
        self.check_soon()

    def delay(self, client: WaitingClient) -> None:
        """Put a client that the quotas delay before all others."""
        self._clients.appendleft(client)
        self.delays = True
        self.check_soon()

    def end_at(self, at_ms: int) -> None:
        """Call `wait_over` at this time, in milliseconds, and at no other time."""
        self.cancel_end()
        # Event loop timers have millisecond resolution and may fire slightly early: 1 ms more avoids a second wait.
        self._wait_timer = self._loop.call_later(max(at_ms + 1 - self._now() * 1000, 0) / 1000, self._wait_over)

    def cancel_end(self) -> None:
        """Cancel the call of `wait_over` that `end_at` has scheduled."""
        if self._wait_timer is not None:
            self._wait_timer.cancel()
            self._wait_timer = None

    def end_wait(self) -> None:
        """Record that the quotas do not delay the first client any more."""
        self.cancel_end()
        self.delays = False

    def take(self, position: int = 0) -> WaitingClient:
        """Remove and return the client at this position; the caller then owns its socket. Raises IndexError."""
        client = self._clients[position]
        del self._clients[position]
        return client

    def take_abandoned(self, is_abandoned: Callable[[WaitingClient], bool]) -> Sequence[WaitingClient]:
        """Remove and return the clients that have hung up; the caller then owns their sockets."""
        gone = [client for client in self._clients if is_abandoned(client)]
        if gone:
            left = {id(client) for client in gone}
            self._clients = deque(client for client in self._clients if id(client) not in left)
        return gone

    def check_soon(self) -> None:
        """Call `check` within `_CHECK_S`, if a client uses a place of the backlog."""
        if self._check_timer is None and self.behind:
            self._check_timer = self._loop.call_later(_CHECK_S, self._check_now)

    def _check_now(self) -> None:
        self._check_timer = None
        self._check()

    def close_all(self) -> Sequence[WaitingClient]:
        """Close all sockets, and return the clients."""
        self.cancel_end()
        if self._check_timer is not None:
            self._check_timer.cancel()
        closed = tuple(self._clients)
        self._clients.clear()
        for client in closed:
            client.accepted.close()
        return closed
