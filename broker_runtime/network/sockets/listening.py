"""Open listening sockets, and read the kernel's queue of clients that wait (docs/decisions/0014). Shell."""

import socket
import struct

from broker_runtime.network.settings import NetworkLimits
from broker_runtime.network.sockets.proxy_header import is_bare_header

_ESTABLISHED = 1
"""The state of a connection that neither side has closed, first byte of `struct tcp_info` (Linux, tcp_states.h)."""
_TCP_INFO: int | None = getattr(socket, "TCP_INFO", None)


class ListenerBindError(OSError):
    """Error for a listener whose address cannot be used. The message names the listener and the address."""


class _ListeningSocket(socket.socket):
    """A socket with its family and kind as plain attributes.

    `accept` reads both. A plain socket looks each up among the enum's members every time, which is a fifth of the time
    of an accept.
    """

    family = socket.AF_INET
    type = socket.SOCK_STREAM


def listening_socket(listener: str, host: str, port: int, limits: NetworkLimits) -> socket.socket:
    """Return a bound, listening, non-blocking socket. Accepted sockets inherit its options."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = _ListeningSocket(family, kind, protocol)
        listening.family, listening.type = family, kind
    except (OSError, ValueError) as error:
        # For text that cannot be a name, such as one with a label of 64 letters, the error is not an OSError.
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
    """Listening sockets of listeners that may be added. Their clients wait in the kernel meanwhile."""

    def __init__(self, limits: NetworkLimits) -> None:
        self._limits = limits
        self._sockets: dict[tuple[str, str, int], socket.socket] = {}

    def reserve(self, listener: str, host: str, port: int) -> None:
        """Open a listening socket unless it is reserved already. Raises ListenerBindError."""
        if (listener, host, port) not in self._sockets:
            self._sockets[listener, host, port] = listening_socket(listener, host, port, self._limits)

    def take(self, listener: str, host: str, port: int) -> socket.socket | None:
        """Return a reserved socket, which the caller then owns; None for one that was not reserved."""
        return self._sockets.pop((listener, host, port), None)

    def release(self) -> None:
        """Close the sockets that were not taken."""
        for listening in self._sockets.values():
            listening.close()
        self._sockets.clear()


def waiting_clients(listening: socket.socket) -> int:
    """Return the number of connections in the kernel's queue of a listening socket; 0 if it is unavailable.

    The number is tcpi_unacked of the socket.
    """
    if not hasattr(socket, "TCP_INFO"):
        return 0
    waiting: int = struct.unpack_from("=I", listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 28), 24)[0]
    return waiting


def is_abandoned(accepted: socket.socket, proxy_header_bytes_max: int | None = None) -> bool:
    """Return whether the client of an accepted connection has closed or reset it, and has left no unread byte.

    The kernel completes a connection before the broker accepts it. While a limit delays the listener, clients give up
    and their connections stay in the kernel's queue. Apache Kafka accepts them in order and counts each one in the
    rate, so a client that is still connected waits for them (decision 44).

    A client that has sent something and closed its side may wait for the answer: it counts as present. A proxy header
    does not count as sent by the client; pass `proxy_header_bytes_max` if the connection comes from a proxy. The bytes
    stay in the connection. An open connection costs one system call.
    """
    if _TCP_INFO is not None and accepted.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 1)[0] == _ESTABLISHED:
        return False
    wanted = 1 if proxy_header_bytes_max is None else proxy_header_bytes_max + 1
    try:
        waiting = accepted.recv(wanted, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return not waiting or (proxy_header_bytes_max is not None and is_bare_header(waiting, proxy_header_bytes_max))
