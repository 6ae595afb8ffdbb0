"""The header in which a proxy names the client of a connection: PROXY protocol, version 2. Pure.

https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt, section 2.2. Version 1 is text without a length, and is
refused. Anything in the header after the addresses (its TLVs) is ignored.
"""

from enum import StrEnum
from ipaddress import ip_address
from typing import NamedTuple

from broker_runtime.config.declaring.addresses import canonical_address

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
_FIXED_BYTES = 16
_VERSION_1 = b"PROXY "
_LOCAL, _PROXY = 0x20, 0x21
"""The byte of a proxy header with version 2 and the command."""
_UNKNOWN, _TCP4, _TCP6 = 0x00, 0x11, 0x21
"""The byte of a proxy header with the address family and the transport."""
_ADDRESS_BYTES = {_TCP4: 4, _TCP6: 16}


class HeaderOutcome(StrEnum):
    """The outcome of a connection from a proxy, or from a peer that claims to be one."""

    CLIENT = "client"
    """The header contains a client's address."""
    LOCAL = "local"
    """The header declares the connection as the proxy's own: a health check."""
    PROBE = "probe"
    """The connection ended without a byte: a health check, too."""
    ABANDONED = "abandoned"
    """The connection ended after its header, before it was accepted or identified: the client had given up."""
    UNTRUSTED = "untrusted"
    """The connection did not come from a trusted network."""
    VERSION_1 = "version-1"
    NO_HEADER = "no-header"
    MALFORMED = "malformed"
    TOO_LONG = "too-long"
    CUT_OFF = "cut-off"
    """The connection ended within the header."""
    OVERDUE = "overdue"
    """The header did not arrive in time."""
    CLOSED = "closed"
    """The connection's listener was closed or paused meanwhile."""


MEANING_OF_REFUSAL: dict[HeaderOutcome, str] = {
    HeaderOutcome.UNTRUSTED: "only proxies may connect here, and proxy.protocol.trusted does not contain this address",
    HeaderOutcome.VERSION_1: "a PROXY header of version 1; configure the proxy to send version 2",
    HeaderOutcome.NO_HEADER: "no PROXY header; configure the proxy to send one, of version 2",
    HeaderOutcome.MALFORMED: "a PROXY header that is not of version 2 for TCP over IPv4 or IPv6",
    HeaderOutcome.TOO_LONG: "a PROXY header longer than sluicegate.proxy.header.max.bytes",
    HeaderOutcome.CUT_OFF: "the connection ended within its PROXY header",
    HeaderOutcome.OVERDUE: "no PROXY header within sluicegate.proxy.header.timeout.ms",
}
"""A sentence for each outcome that a configuration or protocol error causes."""


class ProxyHeaderError(Exception):
    """Error for bytes that are not a usable PROXY header. `outcome` is the reason."""

    def __init__(self, outcome: HeaderOutcome) -> None:
        super().__init__(MEANING_OF_REFUSAL[outcome])
        self.outcome = outcome


class PassedOn(NamedTuple):
    """The content of a PROXY header, by which a proxy passes on a client's address.

    `client` is the client's address; None if the connection is the proxy's own.
    """

    client: tuple[str, int] | None


def is_bare_header(data: bytes, max_bytes: int) -> bool:
    """Return whether `data` is exactly one whole usable proxy header."""
    header = ProxyHeader(max_bytes)
    try:
        while len(data) >= header.missing:
            part, data = data[: header.missing], data[header.missing :]
            if header.receive(part) is not None:
                return not data
    except ProxyHeaderError:
        pass
    return False


class ProxyHeader:
    """The proxy header of one connection, as it arrives.

    `max_bytes` is its maximum length, including the fixed part.
    """

    __slots__ = ("_max_bytes", "_received", "_total")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._received = b""
        self._total = _FIXED_BYTES

    @property
    def missing(self) -> int:
        """Return the number of bytes that may be read next without reading past the header."""
        return self._total - len(self._received)

    @property
    def is_empty(self) -> bool:
        return not self._received

    def receive(self, data: bytes) -> PassedOn | None:
        """Process the next bytes, at most `missing`. Return the header's content, or None while bytes are missing.

        Raises ProxyHeaderError.
        """
        self._received += data
        received = self._received
        if received[:12] != SIGNATURE[: len(received)]:
            is_version_1 = received[:6] == _VERSION_1[: len(received)]
            raise ProxyHeaderError(HeaderOutcome.VERSION_1 if is_version_1 else HeaderOutcome.NO_HEADER)
        if len(received) == _FIXED_BYTES:
            self._total += self._following(received)
        return None if self.missing else self._passed_on(received)

    def _following(self, fixed: bytes) -> int:
        length = int.from_bytes(fixed[14:], "big")
        command, family = fixed[12], fixed[13]
        if command not in (_LOCAL, _PROXY):
            raise ProxyHeaderError(HeaderOutcome.MALFORMED)
        if command == _PROXY and family != _UNKNOWN:
            address = _ADDRESS_BYTES.get(family)
            if address is None or length < 2 * address + 4:
                raise ProxyHeaderError(HeaderOutcome.MALFORMED)
        if _FIXED_BYTES + length > self._max_bytes:
            raise ProxyHeaderError(HeaderOutcome.TOO_LONG)
        return length

    @staticmethod
    def _passed_on(received: bytes) -> PassedOn:
        if received[12] == _LOCAL or received[13] == _UNKNOWN:
            return PassedOn(None)
        size = _ADDRESS_BYTES[received[13]]
        host = canonical_address(str(ip_address(received[16 : 16 + size])))
        assert host is not None
        port_at = _FIXED_BYTES + 2 * size
        return PassedOn((host, int.from_bytes(received[port_at : port_at + 2], "big")))
