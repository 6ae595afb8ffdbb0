"""A Transport that encrypts with TLS over another one, by OpenSSL's memory buffers: the other side in tests.

It shares no code with the broker's own, which encrypts a socket.
"""

import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress

from broker_runtime.network.sockets.transport import FileUnreadableError, Transport
from broker_runtime.security.principal import Principal
from broker_runtime.wire.reply import FileRegion

_RECORD_BYTES = 16 * 1024
_RECORDS_AT_ONCE = 16


class BufferedTls:
    """A Transport with TLS over the transport `below`.

    Handshake, tickets and alerts are part of the first and of all later calls.

    Plain bytes count as taken when `below` has taken all of their ciphertext. Until then the caller offers the same
    bytes again, and only what is left of their records is sent.
    """

    def __init__(self, below: Transport, context: ssl.SSLContext, *, server_name: str | None) -> None:
        """`server_name` is the server that a client expects; None for the server side."""
        self._below = below
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_name is None, server_hostname=server_name
        )
        self._space = memoryview(bytearray(_RECORD_BYTES))
        self._unsent = b""
        """Encrypted bytes that `below` has not taken yet."""
        self._encrypted = 0
        """Number of plain bytes in `_unsent` that have not been reported as taken."""
        self._ahead = b""
        """Decrypted bytes that have not been received yet."""
        self._shaken_hands = False

    @property
    def holds_bytes(self) -> bool:
        return bool(self._ahead) or self._tls.pending() > 0

    @property
    def holds_unread(self) -> bool:
        return self.holds_bytes or self._below.holds_unread

    def receive_into(self, space: memoryview, /) -> int:
        with suppress(BlockingIOError):
            self._flush()
        self._shake_hands()
        if self._ahead:
            count = min(len(space), len(self._ahead))
            space[:count] = self._ahead[:count]
            self._ahead = self._ahead[count:]
            return count
        data = self._decrypted(len(space))
        while data is None:
            self._fill()
            data = self._decrypted(len(space))
        space[: len(data)] = data
        if data and not self._tls.pending() and self._incoming.pending:
            self._ahead = self._decrypted(_RECORD_BYTES) or b""
        return len(data)

    def _decrypted(self, size: int) -> bytes | None:
        """Decrypted bytes. Empty at the peer's end; None while no complete record is there.

        Raises OSError if the stream was cut off.
        """
        try:
            return self._tls.read(size)
        except ssl.SSLZeroReturnError:
            return b""
        except ssl.SSLWantReadError:
            return None

    def _fill(self) -> None:
        count = self._below.receive_into(self._space)
        if count:
            self._incoming.write(self._space[:count])
        else:
            self._incoming.write_eof()

    def _shake_hands(self) -> None:
        while not self._shaken_hands:
            try:
                self._tls.do_handshake()
                self._shaken_hands = True
            except ssl.SSLWantReadError:
                self._flush()
                self._fill()
            else:
                self._flush()

    def write(self, buffers: Sequence[bytes | bytearray | memoryview], /) -> int:
        return self._take(b"".join(buffers))

    def send_region(self, region: FileRegion, /) -> int:
        data = region.file.pread(min(region.length, _RECORD_BYTES * _RECORDS_AT_ONCE), region.offset)
        if not data:
            raise FileUnreadableError("a log file is shorter than its index says")
        sent = self._take(data)
        region.offset += sent
        region.length -= sent
        return sent

    def _take(self, data: bytes) -> int:
        self._shake_hands()
        if not self._encrypted:
            self._flush()
            for at in range(0, min(len(data), _RECORD_BYTES * _RECORDS_AT_ONCE), _RECORD_BYTES):
                self._encrypted += self._tls.write(data[at : at + _RECORD_BYTES])
        self._flush()
        taken, self._encrypted = self._encrypted, 0
        return taken

    def _flush(self) -> None:
        """Send all encrypted bytes. Raises BlockingIOError while `below` does not take all."""
        self._unsent += self._outgoing.read()
        while self._unsent:
            self._unsent = self._unsent[self._below.write([self._unsent]) :]

    def on_handshake(self, ended: Callable[[Principal | None], None], begun: Callable[[], None], /) -> bool:
        del ended, begun
        return False

    def waits_for(self, *, read: bool, write: bool) -> tuple[bool, bool]:
        must_read = write and not self._shaken_hands and not self._unsent
        return self._below.waits_for(read=read or must_read, write=bool(self._unsent) or (write and not must_read))

    def fileno(self) -> int:
        return self._below.fileno()

    def end(self) -> None:
        """Announce the end of the stream; data of the peer is still received."""
        with suppress(ssl.SSLWantReadError):
            self._tls.unwrap()
        self._flush()

    def close(self) -> None:
        with suppress(OSError):
            self.end()
        self._below.close()


def tls_contexts(certificate: str, key: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Contexts of a server that presents this certificate, and of a client that trusts no other."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(certificate)
    return server, client
