"""Clients that misuse TLS: handshakes that stop, renegotiation, and certificates without end."""

import _ssl
import ctypes
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tests.support.tls.authority import Authority

_SOCKET_AND_HEAD_BYTES = 24
"""Bytes of CPython's object of a TLS session before its pointer to OpenSSL's: the object's head, and the socket."""


def client_hello(server_name: str = "localhost") -> bytes:
    """The first message of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname=server_name)
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake needs an answer")


def open_many(address: tuple[str, int], sent: Sequence[bytes], count: int) -> list[socket.socket]:
    """Open connections from twenty addresses of loopback; each sends one of these beginnings, in turn."""
    found = []
    for number in range(count):
        one = socket.create_connection(address, timeout=60, source_address=(f"127.0.0.{2 + number % 20}", 0))
        one.sendall(sent[number % len(sent)])
        found.append(one)
    return found


def renegotiate(session: ssl.SSLSocket) -> None:
    """Ask for another handshake on a connection of TLS 1.2. Python has no function for it. Raises ssl.SSLError."""
    openssl = ctypes.CDLL(_ssl.__file__)
    begins = ctypes.cast(id(session._sslobj) + _SOCKET_AND_HEAD_BYTES, ctypes.POINTER(ctypes.c_void_p))  # type: ignore[attr-defined]
    openssl.SSL_renegotiate.argtypes = [ctypes.c_void_p]
    assert openssl.SSL_renegotiate(begins[0]) == 1
    session.do_handshake()


def long_chain(folder: Path, certificates: int, name_bytes: int) -> tuple[Path, Path]:
    """A client's chain of as many certificates of other authorities, with long names, and its key."""
    own = Authority("Other CA").issue("CN=eve")
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "o" * 64)] * (name_bytes // 64))
    more = Authority("Long CA").issue(name).certificate.public_bytes(Encoding.PEM).decode()
    chain, key = folder / "chain.pem", folder / "key.pem"
    chain.write_text(own.chain + more * certificates)
    key.write_text(own.key_pem())
    return chain, key
