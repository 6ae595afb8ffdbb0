"""Listening sockets: opened, and how many clients wait in the kernel's queue. Shell."""

import socket
import struct

from broker_runtime.network.settings import NetworkLimits


class ListenerBindError(OSError):
    """A listener's address cannot be used; the message names both."""


class _ListeningSocket(socket.socket):
    """Knows its family and kind: `accept` asks for both, and of a plain socket each is looked up among the enum's
    members every time, which is a fifth of what an accept takes.
    """

    family = socket.AF_INET
    type = socket.SOCK_STREAM


def listening_socket(listener: str, host: str, port: int, limits: NetworkLimits) -> socket.socket:
    """A bound, listening, non-blocking socket; what it is set to, the accepted ones inherit."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = _ListeningSocket(family, kind, protocol)
        listening.family, listening.type = family, kind
    except (OSError, ValueError) as error:
        # Of what cannot be a name at all, such as one with a label of 64 letters, no OSError comes.
        raise ListenerBindError(f"listener {listener}: cannot use {host}:{port}: {error}") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if limits.receive_buffer_bytes >= 0:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.receive_buffer_bytes)
        if limits.send_buffer_bytes >= 0:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer_bytes)
        listening.setblocking(False)
        listening.bind(address)
        listening.listen(limits.listen_backlog)
    except OSError as error:
        listening.close()
        raise ListenerBindError(f"listener {listener}: cannot listen on {host}:{port}: {error.strerror}") from error
    return listening


class ReservedListeners:
    """Owns sockets that listen for a listener that may be added; clients wait in the kernel meanwhile."""

    def __init__(self, limits: NetworkLimits) -> None:
        self._limits = limits
        self._sockets: dict[tuple[str, str, int], socket.socket] = {}

    def reserve(self, listener: str, host: str, port: int) -> None:
        """Raises ListenerBindError."""
        if (listener, host, port) not in self._sockets:
            self._sockets[listener, host, port] = listening_socket(listener, host, port, self._limits)

    def take(self, listener: str, host: str, port: int) -> socket.socket | None:
        """It is the caller's from here on; None when nothing was reserved."""
        return self._sockets.pop((listener, host, port), None)

    def release(self) -> None:
        """Close what was not taken."""
        for listening in self._sockets.values():
            listening.close()
        self._sockets.clear()


def waiting_clients(listening: socket.socket) -> int:
    """Connections in the kernel's queue: tcpi_unacked, which of a listening socket counts them; 0 where none tells."""
    if not hasattr(socket, "TCP_INFO"):
        return 0
    waiting: int = struct.unpack_from("=I", listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 28), 24)[0]
    return waiting
