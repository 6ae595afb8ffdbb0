"""Loopback addresses for pods: 127.20.x.y, one x for each running kubelet of this machine."""

import os
import socket

CLAIM_PORT = 47020
"""The process that listens on 127.20.x.1 at this port owns x; the claim ends with the process."""

NETWORKS = 200
HOSTS = range(10, 250)


class NoAddressLeftError(Exception):
    """All pod addresses of this kubelet are taken."""


class PodAddresses:
    """The network of this kubelet, which assigns addresses to pods."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._last = -1
        self._claim, self._network = _claim_network()

    def take(self) -> str:
        """Take a free address in rotation, so that an address is not given away right after its last owner ended."""
        for step in range(1, len(HOSTS) + 1):
            index = (self._last + step) % len(HOSTS)
            address = f"{self._network}.{HOSTS[index]}"
            if address not in self._taken:
                self._taken.add(address)
                self._last = index
                return address
        raise NoAddressLeftError(f"all {len(HOSTS)} pod addresses of {self._network}.0/24 are taken")

    def give_back(self, address: str) -> None:
        self._taken.discard(address)

    def close(self) -> None:
        self._claim.close()


def _claim_network() -> tuple[socket.socket, str]:
    for step in range(NETWORKS):
        network = f"127.20.{(os.getpid() + step) % NETWORKS + 1}"
        claim = socket.socket()
        try:
            claim.bind((f"{network}.1", CLAIM_PORT))
            claim.listen(1)
        except OSError:
            claim.close()
            continue
        return claim, network
    raise NoAddressLeftError(f"{NETWORKS} kubelets run on this machine already")
