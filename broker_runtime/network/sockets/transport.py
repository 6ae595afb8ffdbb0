"""The interface below a connection: one end of a byte stream that never blocks. Shell.

`PlainTransport` is a TCP socket. An encrypting transport (`tls_transport`) may have to write in order to read, and the
reverse. It may buffer bytes that the socket no longer shows, and it does not use sendfile.
"""

import errno
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from fcntl import ioctl
from termios import FIONREAD
from typing import Protocol

from broker_runtime.config.declaring.endpoints import SecurityProtocol
from broker_runtime.security.principal import Principal
from broker_runtime.wire.reply import FileRegion

_NO_BYTES = bytes(4)
"""Zero unread bytes, as FIONREAD writes an int."""
SENDFILE_BYTES = 4 * 1024 * 1024
"""Maximum bytes of a file sent at once."""
BUFFERS_PER_CALL = os.sysconf("SC_IOV_MAX")
"""Maximum number of buffers of one `sendmsg`, 1,024 on Linux. A call with more raises EMSGSIZE."""


class FileUnreadableError(OSError):
    """Error for a file of which less can be read than was promised to the client. The stream itself may be intact."""


class HandshakeError(OSError):
    """A TLS handshake has failed.

    `is_refusal` means that one side has refused the other, and was not merely cut off.
    """

    def __init__(self, text: str, *, is_refusal: bool) -> None:
        super().__init__(text)
        self.is_refusal = is_refusal


class Transport(Protocol):
    """One end of a connection that carries bytes, with TLS or without.

    Receiving and sending raise BlockingIOError if nothing can be done now, and OSError if the stream has failed. A
    handshake is part of the first calls: until the handshake is complete, they only continue it.
    """

    def on_handshake(self, ended: Callable[[Principal | None], None], begun: Callable[[], None], /) -> bool:
        """Call `ended` with the other side's principal after the handshake. Return False for a transport without one.

        `begun` is called when the handshake begins to use memory. The principal is None if the handshake does not
        authenticate the other side.
        """
        ...

    @property
    def holds_bytes(self) -> bool:
        """Return whether `receive_into` would return bytes although the socket is not readable."""
        ...

    @property
    def holds_unread(self) -> bool:
        """Return whether bytes have arrived that were not received yet. This takes a system call."""
        ...

    def receive_into(self, space: memoryview, /) -> int:
        """Receive bytes into `space`, and return their number; 0 if the peer has ended its side."""
        ...

    def write(self, buffers: Sequence[bytes | bytearray | memoryview], /) -> int:
        """Send bytes of any number of buffers, in order. Return how many were taken.

        The caller offers the rest again, from the next byte on.
        """
        ...

    def send_region(self, region: FileRegion, /) -> int:
        """Send bytes of `region`, at most `SENDFILE_BYTES`. Return their number, and advance the beginning of `region`.

        Raises FileUnreadableError if the file ends too early, or cannot be read.
        """
        ...

    def waits_for(self, *, read: bool, write: bool) -> tuple[bool, bool]:
        """Return whether to watch the socket for reading and for writing, to receive (`read`) and to send (`write`)."""
        ...

    def fileno(self) -> int:
        """Return the socket's descriptor for watching; negative after the socket is closed."""
        ...

    def close(self) -> None: ...


class TransportFactory(Protocol):
    """Function that creates the transport of a connected, non-blocking stream socket, which the transport then owns."""

    def __call__(self, connected: socket.socket, /) -> Transport: ...


class PlainTransport:
    """A transport without encryption over `connected`, a non-blocking stream socket."""

    __slots__ = ("_socket",)

    holds_bytes = False

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def on_handshake(self, ended: Callable[[Principal | None], None], begun: Callable[[], None], /) -> bool:
        """Return False, because a connection without TLS has no handshake."""
        del ended, begun
        return False

    @property
    def holds_unread(self) -> bool:
        """Implement `Transport`: return whether bytes have arrived that were not received yet."""
        return has_unread(self._socket)

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


def has_unread(connected: socket.socket) -> bool:
    """Return whether the kernel has bytes for this socket. This takes a system call."""
    return any(ioctl(connected.fileno(), FIONREAD, _NO_BYTES))


TRANSPORTS: Mapping[SecurityProtocol, TransportFactory] = {
    SecurityProtocol.PLAINTEXT: PlainTransport,
    SecurityProtocol.SASL_PLAINTEXT: PlainTransport,
}
"""The factories of transports without encryption, for accepted and for dialled sockets, by security protocol."""
