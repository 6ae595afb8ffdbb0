"""The security protocol of a client: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, with its credentials.

Values are compared to find a changed Secret, and their repr contains no secret.
"""

import asyncio
import secrets
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from kafka_bytes.pem import ascii_pem
from kafka_bytes.sasl.mechanisms import (
    OAUTHBEARER,
    PLAIN,
    BearerExchange,
    PlainExchange,
    SaslError,
    SaslExchange,
)
from kafka_bytes.sasl.scram import SCRAM_MECHANISMS, ScramExchange
from sluicegate_operator.kafka_admin.errors import Address

Connect = Callable[[Address, Callable[[], asyncio.Protocol]], Awaitable[object]]
"""Function that opens a transport and ties it to the factory's protocol; tests replace it."""
MECHANISMS = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER)


class SecurityError(Exception):
    """Error for certificates, keys or credentials that cannot be used.

    The message is half a sentence without their contents.
    """


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The TLS settings of a client of brokers, with certificates in PEM.

    Without `authorities`, those of the system verify brokers. The key belongs to `certificate`. `server_name` is the
    name that each broker's certificate must have, instead of the broker's own name or address.
    """

    authorities: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    server_name: str = ""

    def context(self) -> ssl.SSLContext:
        """Return an SSL context that verifies brokers and their names. Raises SecurityError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # As for brokers, each of the authorities is trusted, also one that another has issued.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            if self.authorities:
                context.load_verify_locations(cadata=ascii_pem(self.authorities))
            else:
                context.load_default_certs()
        except (ssl.SSLError, ValueError):
            raise SecurityError("the trusted certificates are not certificates in PEM") from None
        if self.certificate:
            self._load_own(context)
        return context

    def _load_own(self, context: ssl.SSLContext) -> None:
        with tempfile.TemporaryDirectory() as folder:
            # OpenSSL only reads files. The folder belongs to the user alone.
            certificate, key = Path(folder) / "certificate", Path(folder) / "key"
            certificate.write_text(self.certificate)
            key.write_text(self.key)
            try:
                context.load_cert_chain(certificate, key, password=_no_password)
            except _EncryptedKeyError:
                raise SecurityError("the key of the client certificate is encrypted; store it unencrypted") from None
            except (ssl.SSLError, ValueError):
                raise SecurityError(
                    "the client certificate and its key cannot be used: one is not PEM, or they do not belong together"
                ) from None


class _EncryptedKeyError(Exception):
    """The key needs a password."""


def _no_password() -> str:
    raise _EncryptedKeyError


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """The settings of SASL: a mechanism with user name and password, or with the token of OAUTHBEARER."""

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)

    def exchange(self) -> SaslExchange:
        """Return the client's side of one authentication. Raises SaslError."""
        if self.mechanism == PLAIN:
            return PlainExchange(self.username, self.password)
        if self.mechanism == OAUTHBEARER:
            return BearerExchange(self.token)
        if self.mechanism in SCRAM_MECHANISMS:
            return ScramExchange(self.mechanism, self.username, self.password, secrets.token_urlsafe(24))
        raise SaslError(f"the mechanism must be one of {', '.join(MECHANISMS)}, not {self.mechanism}")


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """The security of a client's connections: with TLS or without, with SASL or without."""

    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None

    @property
    def protocol(self) -> str:
        """Return Kafka's name of the security protocol."""
        if self.sasl is not None:
            return "SASL_SSL" if self.tls is not None else "SASL_PLAINTEXT"
        return "SSL" if self.tls is not None else "PLAINTEXT"

    def check(self) -> None:
        """Raise SecurityError if the certificates or credentials cannot be used."""
        self.connect()
        if self.sasl is not None:
            try:
                self.sasl.exchange()
            except SaslError as error:
                raise SecurityError(str(error)) from None

    def connect(self) -> Connect:
        """Return the function that opens a transport. Raises SecurityError for unusable certificates or credentials."""
        return open_tcp if self.tls is None else _open_tls(self.tls.context(), self.tls.server_name)


PLAINTEXT = ClientSecurity()


async def open_tcp(address: Address, factory: Callable[[], asyncio.Protocol]) -> object:
    host, port = address
    transport, _protocol = await asyncio.get_running_loop().create_connection(factory, host, port)
    return transport


def _open_tls(context: ssl.SSLContext, name: str) -> Connect:
    async def connect(address: Address, factory: Callable[[], asyncio.Protocol]) -> object:
        host, port = address
        transport, _protocol = await asyncio.get_running_loop().create_connection(
            factory, host, port, ssl=context, server_hostname=name or host
        )
        return transport

    return connect
