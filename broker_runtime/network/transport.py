"""The seam below a connection: one end of a byte stream that never blocks. Shell.

`PlainTransport` is a TCP socket. Others may encrypt: such a one may have to write in order to read, and the other way
round, may hold bytes that the socket does not show any more, and has no use for sendfile.
"""

import errno
import os
import socket
from collections.abc import Mapping, Sequence
from fcntl import ioctl
from termios import FIONREAD
from typing import Protocol

from broker_runtime.config.endpoints import SecurityProtocol
from broker_runtime.wire.reply import FileRegion

_NO_BYTES = bytes(4)
"""How many bytes are unread, as FIONREAD writes an int, where there are none."""
SENDFILE_BYTES = 4 * 1024 * 1024
"""Sent of a file at most at once."""
BUFFERS_PER_CALL = os.sysconf("SC_IOV_MAX")
"""Most buffers of one `sendmsg`, 1,024 on Linux. A call with more raises EMSGSIZE."""


class FileUnreadableError(OSError):
    """Less of a file can be read than was promised to the client. The stream itself may be well."""


class Transport(Protocol):
    """All three calls raise BlockingIOError when nothing can be done now, and OSError when the stream has failed.

    A handshake is part of the first calls: until it is over they do nothing but to carry it on.
    """

    @property
    def holds_bytes(self) -> bool:
        """Bytes have come that `receive_into` would give without the socket being readable."""
        ...

    @property
    def holds_unread(self) -> bool:
        """Bytes have come that nobody has received yet. It takes a system call."""
        ...

    def receive_into(self, space: memoryview, /) -> int:
        """How many bytes were received; 0: the peer has ended its side."""
        ...

    def write(self, buffers: Sequence[bytes | bytearray | memoryview], /) -> int:
        """Take some bytes of any number of buffers, in order; returns how many.

        The caller offers the rest again, from that byte on.
        """
        ...

    def send_region(self, region: FileRegion, /) -> int:
        """How many bytes were taken, `SENDFILE_BYTES` at most; moves the beginning of `region` behind them.

        Raises FileUnreadableError when the file ends before it, or cannot be read.
        """
        ...

    def waits_for(self, *, read: bool, write: bool) -> tuple[bool, bool]:
        """Whether the socket is to be watched for reading and for writing by who waits to receive, and to send."""
        ...

    def fileno(self) -> int:
        """The socket's descriptor, to be watched; negative once it is closed."""
        ...

    def close(self) -> None: ...


class TransportFactory(Protocol):
    """Makes the transport of a stream socket that does not block, and is connected; it owns the socket from then on."""

    def __call__(self, connected: socket.socket, /) -> Transport: ...


class PlainTransport:
    """Owns `connected`, a stream socket that does not block."""

    __slots__ = ("_socket",)

    holds_bytes = False

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    @property
    def holds_unread(self) -> bool:
        """As of `Transport`."""
        return any(ioctl(self._socket.fileno(), FIONREAD, _NO_BYTES))

    def receive_into(self, space: memoryview, /) -> int:
        return self._socket.recv_into(space)

    def write(self, buffers: Sequence[bytes | bytearray | memoryview], /) -> int:
        if len(buffers) == 1:
            return self._socket.send(buffers[0])
        if len(buffers) > BUFFERS_PER_CALL:
            buffers = buffers[:BUFFERS_PER_CALL]
        return self._socket.sendmsg(buffers)

    def send_region(self, region: FileRegion, /) -> int:
        source, count = region.file.fileno(), min(region.length, SENDFILE_BYTES)
        try:
            sent = os.sendfile(self._socket.fileno(), source, region.offset, count)
        except OSError as error:
            # All other errors are the socket's.
            if error.errno == errno.EIO:
                raise FileUnreadableError(str(error)) from error
            raise
        if sent == 0:
            raise FileUnreadableError("a log file is shorter than its index says")
        region.offset += sent
        region.length -= sent
        return sent

    def waits_for(self, *, read: bool, write: bool) -> tuple[bool, bool]:
        return read, write

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()


TRANSPORTS: Mapping[SecurityProtocol, TransportFactory] = {SecurityProtocol.PLAINTEXT: PlainTransport}
"""What carries the bytes of accepted and of dialled sockets: one that encrypts is another entry."""
