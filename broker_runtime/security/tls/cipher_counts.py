"""Open TLS connections by listener, cipher suite and version, as in Apache Kafka's socket-server-metrics. Pure."""

from collections.abc import Callable
from functools import partial

from broker_runtime.security.tls.cipher_names import iana_name

Cipher = tuple[str, str, str]
"""Listener, cipher suite by IANA's name, and version of TLS."""


class CipherCounts:
    """Counts of connections by cipher, from the end of their handshake until they end.

    Unused ciphers are not listed.
    """

    __slots__ = ("_ends", "open")

    def __init__(self) -> None:
        self.open: dict[Cipher, int] = {}
        self._ends: dict[Cipher, Callable[[], None]] = {}
        """The function that counts the end of one connection. All connections with the same cipher share it."""

    def begin(self, listener: str, suite: str, version: str) -> Callable[[], None]:
        """Count a connection, with OpenSSL's name of its suite.

        Return the function to call when the connection ends.
        """
        cipher = listener, iana_name(suite), version
        if cipher not in self.open:
            self.open[cipher] = 0
            self._ends[cipher] = partial(self._end, cipher)
        self.open[cipher] += 1
        return self._ends[cipher]

    def _end(self, cipher: Cipher) -> None:
        self.open[cipher] -= 1
        if not self.open[cipher]:
            del self.open[cipher], self._ends[cipher]
