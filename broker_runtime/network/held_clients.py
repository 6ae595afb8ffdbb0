"""Accepted clients of one listener that wait for a rate or a slot. Shell."""

import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

HELD_MAX = 256
"""Clients at most that wait in the process; more wait in the kernel. Checking all of them takes 0.3 ms."""


class HeldClient(NamedTuple):
    """`by_proxy`: the address of `peer` is a proxy's, and the client's is not known yet."""

    accepted: socket.socket
    peer: tuple[str, int]
    by_proxy: bool


class HeldClients:
    """Owns the sockets of clients that wait, in the order of their arrival."""

    __slots__ = ("_clients", "_is_abandoned")

    def __init__(self, is_abandoned: Callable[[HeldClient], bool]) -> None:
        self._clients: deque[HeldClient] = deque()
        self._is_abandoned = is_abandoned

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def first(self) -> HeldClient:
        return self._clients[0]

    def add(self, client: HeldClient) -> None:
        """Behind all others."""
        self._clients.append(client)

    def put_first(self, client: HeldClient) -> None:
        """Before all others: the client had been taken."""
        self._clients.appendleft(client)

    def take(self, position: int = 0) -> HeldClient:
        """The client at this position, whose socket belongs to the caller from here on. Raises IndexError."""
        client = self._clients[position]
        del self._clients[position]
        return client

    def take_abandoned(self) -> Sequence[HeldClient]:
        """The clients that have hung up meanwhile; their sockets belong to the caller from here on."""
        gone = [client for client in self._clients if self._is_abandoned(client)]
        if gone:
            left = {id(client) for client in gone}
            self._clients = deque(client for client in self._clients if id(client) not in left)
        return gone

    def close_all(self) -> None:
        while self._clients:
            self._clients.popleft().accepted.close()
