"""Accepted clients of one listener that wait for a rate or a slot. Shell."""

import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

HELD_MAX = 256
"""Maximum of clients that wait in the process; more wait in the kernel. Checking all of them takes 0.3 ms."""


class WaitingClient(NamedTuple):
    """A waiting client. If `by_proxy`, `peer` is a proxy's address and the client's is not known yet."""

    accepted: socket.socket
    peer: tuple[str, int]
    by_proxy: bool


class WaitingClients:
    """Owns the sockets of waiting clients, in the order of their arrival."""

    __slots__ = ("_clients", "_is_abandoned")

    def __init__(self, is_abandoned: Callable[[WaitingClient], bool]) -> None:
        self._clients: deque[WaitingClient] = deque()
        self._is_abandoned = is_abandoned

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def first(self) -> WaitingClient:
        return self._clients[0]

    def add(self, client: WaitingClient) -> None:
        """Append a client."""
        self._clients.append(client)

    def put_first(self, client: WaitingClient) -> None:
        """Insert a client before all others: it had been taken before."""
        self._clients.appendleft(client)

    def take(self, position: int = 0) -> WaitingClient:
        """Remove and return the client at this position; the caller owns its socket. Raises IndexError."""
        client = self._clients[position]
        del self._clients[position]
        return client

    def take_abandoned(self) -> Sequence[WaitingClient]:
        """Remove and return the clients that have hung up; the caller owns their sockets."""
        gone = [client for client in self._clients if self._is_abandoned(client)]
        if gone:
            left = {id(client) for client in gone}
            self._clients = deque(client for client in self._clients if id(client) not in left)
        return gone

    def close_all(self) -> None:
        while self._clients:
            self._clients.popleft().accepted.close()
