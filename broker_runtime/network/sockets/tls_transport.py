"""A transport that encrypts: a non-blocking TLS socket (decision 55). Shell.

OpenSSL reads and writes the socket itself, so no encrypted byte passes through Python. It reads a record of 16 KiB at a
time: what is left in the socket is readable there.
"""

import errno
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress

from broker_runtime.network.sockets.transport import FileUnreadableError, HandshakeError, has_unread
from broker_runtime.security.principal import Principal
from broker_runtime.wire.reply import FileRegion

_RECORD_BYTES = 16 * 1024
_SLICE_BYTES = 256 * 1024
"""Bytes that one call encrypts at most; the rest of a file stays on the disk meanwhile."""

_UNREAD_CALLS = 16
"""Limit of the calls that discard unread bytes of a refused client."""

Identify = Callable[[bytes | None], Principal | None]
"""Function that returns the principal of a peer by its verified certificate in DER, or None if SASL finds it.

It raises ValueError.
"""

Shaken = Callable[[str, str], Callable[[], None]]
"""Function that records a handshake, by OpenSSL's name of the cipher suite and the version.

It returns the function to call when the connection ends.
"""


class TlsTransport:
    """A transport with TLS over `connected`, a non-blocking stream socket. The first calls are the handshake.

    A client passes the `server_name` that it expects in the certificate of the server.
    """

    __slots__ = (
        "_begin",
        "_begun",
        "_ended",
        "_fileno",
        "_gone",
        "_identify",
        "_read_blocks",
        "_shaken",
        "_shaking",
        "_socket",
        "_write_blocks",
    )

    def __init__(
        self,
        connected: socket.socket,
        context: ssl.SSLContext,
        identify: Identify,
        *,
        server_name: str | None = None,
        shaken: Shaken | None = None,
    ) -> None:
        self._shaking = True
        self._identify = identify
        self._shaken = shaken
        self._gone: Callable[[], None] | None = None
        self._ended: Callable[[Principal | None], None] | None = None
        self._begun: Callable[[], None] | None = None
        self._read_blocks = (True, False)
        self._write_blocks = (server_name is None, server_name is not None)
        """Events of the socket, reading and writing, for which receiving and sending waits."""
        self._socket: socket.socket = connected
        self._fileno = connected.fileno()
        self._begin: tuple[ssl.SSLContext, str | None] | None = (context, server_name)
        """The TLS context for the session; None once the session exists.

        A silent client costs no session, which takes 40 kB.
        """

    def on_handshake(self, ended: Callable[[Principal | None], None], begun: Callable[[], None]) -> bool:
        """Implement `Transport`: call `ended` with the other side's principal when the handshake is complete."""
        self._ended, self._begun = ended, begun
        return self._shaking

    @property
    def holds_bytes(self) -> bool:
        return isinstance(self._socket, ssl.SSLSocket) and not self._shaking and self._socket.pending() > 0

    @property
    def holds_unread(self) -> bool:
        return self.holds_bytes or has_unread(self._socket)

    def receive_into(self, space: memoryview, /) -> int:
        if self._shaking:
            self._shake_hands()
        total = received = self._receive(space)
        # A full record is probably followed by another one. After a short one it is worth a look: a client encrypts
        # each of its small requests by itself, and the next time slice would receive only one of them.
        while received and total < len(space) and (received == _RECORD_BYTES or has_unread(self._socket)):
            try:
                received = self._receive(space[total:])
            except OSError:
                # Nothing more is there, or the next call raises the same error.
                break
            total += received
        return total

    def _receive(self, space: memoryview) -> int:
        try:
            return self._socket.recv_into(space, len(space))
        except ssl.SSLWantReadError:
            self._read_blocks = (True, False)
        except ssl.SSLWantWriteError:
            self._read_blocks = (False, True)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            # Frames have lengths, so a cut stream is noticed: many clients end it without an announcement.
            return 0
        except ssl.SSLError as error:
            raise _failure(error) from None
        raise BlockingIOError

    def write(self, buffers: Sequence[bytes | bytearray | memoryview], /) -> int:
        if self._shaking:
            self._shake_hands()
        if len(buffers) == 1:
            return self._send(buffers[0])
        taken: list[bytes | bytearray | memoryview] = []
        total = 0
        for buffer in buffers:
            if total + len(buffer) > _SLICE_BYTES and taken:
                break
            taken.append(buffer)
            total += len(buffer)
        return self._send(b"".join(taken))

    def send_region(self, region: FileRegion, /) -> int:
        if self._shaking:
            self._shake_hands()
        try:
            data = region.file.pread(min(region.length, _SLICE_BYTES), region.offset)
        except OSError as error:
            raise FileUnreadableError(str(error)) from error
        if not data:
            raise FileUnreadableError("a log file is shorter than its index says")
        sent = self._send(data)
        region.offset += sent
        region.length -= sent
        return sent

    def _send(self, data: bytes | bytearray | memoryview) -> int:
        """Encrypt and send records; return the bytes taken. OpenSSL keeps a record that the socket takes in parts.

        The caller then offers the same bytes again, as OpenSSL demands.
        """
        send, view, total = self._socket.send, memoryview(data), 0
        while total < len(view):
            try:
                total += send(view[total : total + _RECORD_BYTES])
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as blocked:
                self._write_blocks = (True, False) if isinstance(blocked, ssl.SSLWantReadError) else (False, True)
                if total:
                    return total
                raise BlockingIOError from None
            except ssl.SSLError as error:
                raise _failure(error) from None
        return total

    def _session(self) -> ssl.SSLSocket:
        """Return the TLS socket; the server's side creates it when the client has sent something. Raises OSError."""
        if self._begin is not None:
            context, server_name = self._begin
            if server_name is None and not self._socket.recv(1, socket.MSG_PEEK):
                raise HandshakeError("the connection ended before the TLS handshake", is_refusal=False)
            self._begin = None
            self._socket = context.wrap_socket(
                self._socket,
                server_side=server_name is None,
                do_handshake_on_connect=False,
                suppress_ragged_eofs=False,
                server_hostname=server_name,
            )
            if self._begun is not None:
                begun, self._begun = self._begun, None
                begun()
        if not isinstance(self._socket, ssl.SSLSocket):
            raise ConnectionResetError(errno.ECONNRESET, "the connection was lost before the TLS handshake")
        return self._socket

    def _shake_hands(self) -> None:
        tls = self._session()
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            self._read_blocks = self._write_blocks = (True, False)
            raise BlockingIOError from None
        except ssl.SSLWantWriteError:
            self._read_blocks = self._write_blocks = (False, True)
            raise BlockingIOError from None
        except ssl.SSLEOFError:
            raise HandshakeError("the connection ended within the TLS handshake", is_refusal=False) from None
        except ssl.SSLError as error:
            self._announce_refusal()
            raise HandshakeError(_reason(error), is_refusal=True) from None
        self._shaking = False
        self._read_blocks, self._write_blocks = (True, False), (False, True)
        try:
            principal = self._identify(tls.getpeercert(binary_form=True))
        except ValueError as error:
            raise HandshakeError(str(error), is_refusal=True) from None
        suite = tls.cipher()
        if self._shaken is not None and suite is not None:
            self._gone = self._shaken(suite[0], tls.version() or suite[1])
        if self._ended is not None:
            ended, self._ended = self._ended, None
            ended(principal)

    def _announce_refusal(self) -> None:
        """Let the other side read the alert, which OpenSSL has sent: unread bytes at the close would discard it."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        with suppress(OSError):
            for _ in range(_UNREAD_CALLS):
                if not socket.socket.recv(self._socket, _RECORD_BYTES):
                    break

    def waits_for(self, *, read: bool, write: bool) -> tuple[bool, bool]:
        wants_read, wants_write = self._read_blocks if read else (False, False)
        if write:
            wants_read, wants_write = wants_read or self._write_blocks[0], wants_write or self._write_blocks[1]
        return wants_read, wants_write

    def fileno(self) -> int:
        return self._fileno

    def close(self) -> None:
        gone, self._gone = self._gone, None
        if gone is not None:
            gone()
        if isinstance(self._socket, ssl.SSLSocket) and not self._shaking:
            # Announces the end of the stream, without waiting for the announcement of the other side.
            with suppress(OSError, ValueError):
                self._socket.unwrap()
        self._socket.close()
        self._fileno = -1
        # These functions refer to the connection, which refers to this transport: a reference cycle.
        self._ended = self._begun = None


def _failure(error: ssl.SSLError) -> OSError:
    return OSError(f"TLS: {_reason(error)}")


def _reason(error: ssl.SSLError) -> str:
    """Return OpenSSL's reason in words."""
    reason = error.reason or "an error of OpenSSL"
    meaning = _MEANINGS.get(reason)
    detail = getattr(error, "verify_message", None)
    return f"{reason}{f': {detail}' if detail else ''}{f' ({meaning})' if meaning else ''}"


_MEANINGS = {
    "WRONG_VERSION_NUMBER": "the other side does not use TLS",
    "HTTP_REQUEST": "an HTTP request",
    "HTTPS_PROXY_REQUEST": "an HTTP request",
    "UNSUPPORTED_PROTOCOL": "the other side offers only versions of TLS that ssl.enabled.protocols does not have",
    "NO_SHARED_CIPHER": "the two sides have no cipher suite in common, see ssl.cipher.suites",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has shown no certificate, and ssl.client.auth is required",
    "TLSV1_ALERT_UNKNOWN_CA": "the other side does not trust the certificate of this node",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the other side does not accept the certificate of this node",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the other side does not accept the certificate of this node",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the other side demands a certificate of this node",
}
