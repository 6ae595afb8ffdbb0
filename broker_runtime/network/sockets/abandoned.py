"""Detect connections that the client closed before they were accepted. Shell.

The kernel completes a connection before the broker accepts it. While a limit delays the listener, clients give up and
their connections stay in the kernel's queue. Apache Kafka accepts them in order and counts each one in the rate, so a
client that is still connected waits for them (decision 44).
"""

import socket

from broker_runtime.network.sockets.proxy_header import is_bare_header

_ESTABLISHED = 1
"""The state of a connection that neither side has closed, first byte of `struct tcp_info` (Linux, tcp_states.h)."""
_TCP_INFO: int | None = getattr(socket, "TCP_INFO", None)


def is_abandoned(accepted: socket.socket, proxy_header_bytes_max: int | None = None) -> bool:
    """Whether the client has closed or reset the connection and has left no unread byte.

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
