"""A TLS certificate with its key, as Secrets have it, and the checks that an API server makes.

No I/O but for `load`.
"""

import base64
import binascii
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_bytes.pem import ascii_pem

CERTIFICATE, KEY, AUTHORITIES = "tls.crt", "tls.key", "ca.crt"
_NO_CHECK_TIME = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL."""


class CertificateError(Exception):
    """Error for a certificate that API servers would not accept. The message says why."""


@dataclass(frozen=True, slots=True)
class TlsPair:
    """A certificate and its key, both in PEM.

    `authorities` are the certificates that verify it; empty means the system's.
    """

    certificate: bytes
    key: bytes
    authorities: bytes = b""

    @classmethod
    def of_secret(cls, secret: Mapping[str, Any]) -> "TlsPair | None":
        """Return the pair in a Secret; None if the Secret has no certificate yet. Raises CertificateError."""
        data = secret.get("data") or {}
        if not data.get(CERTIFICATE) or not data.get(KEY):
            return None
        try:
            return cls(
                *(base64.b64decode(data.get(name) or "", validate=True) for name in (CERTIFICATE, KEY, AUTHORITIES))
            )
        except binascii.Error as error:
            raise CertificateError(f"the data of the Secret is not base64: {error}") from None

    def data(self) -> dict[str, str]:
        """Return the pair as the `data` of a Secret."""
        found = {CERTIFICATE: self.certificate, KEY: self.key, AUTHORITIES: self.authorities}
        return {name: base64.b64encode(value).decode() for name, value in found.items()}

    def load(self, tls: ssl.SSLContext) -> None:
        """Serve this certificate in handshakes that begin from now on. Raises CertificateError."""
        with tempfile.TemporaryDirectory() as folder:
            # OpenSSL only reads files. The folder belongs to the user alone.
            certificate, key = Path(folder) / CERTIFICATE, Path(folder) / KEY
            certificate.write_bytes(self.certificate)
            key.write_bytes(self.key)
            try:
                tls.load_cert_chain(certificate, key, password=_no_password)
            except _EncryptedKeyError:
                raise CertificateError(f"{KEY} is encrypted: store it unencrypted") from None
            except (ssl.SSLError, ValueError) as error:
                raise CertificateError(f"{CERTIFICATE} and {KEY} cannot be used: {error}") from None

    def expires_s(self, host: str) -> float:
        """Return the Unix time at which the certificate ends.

        Raises CertificateError if it is not valid for `host`, or if `authorities` do not verify it.
        """
        return float(ssl.cert_time_to_seconds(str(self.verified(host)["notAfter"])))

    def verified(self, host: str) -> Mapping[str, Any]:
        """Return the certificate in the form of `ssl.SSLSocket.getpeercert`. Raises CertificateError like `expires_s`.

        The verification is a handshake of a client and a server in memory: the ssl module parses certificates in no
        other way.
        """
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.load(server)
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # As for API servers, each of the authorities is trusted, also one that another has issued.
        client.verify_flags |= ssl.VerifyFlags(_NO_CHECK_TIME) | ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            if self.authorities:
                client.load_verify_locations(cadata=ascii_pem(self.authorities.decode("utf-8", "replace")))
            else:
                client.load_default_certs()
            return _peer(client, server, host)
        except ssl.SSLCertVerificationError as error:
            raise CertificateError(f"{CERTIFICATE} is not valid for {host}: {error.verify_message}") from None
        except (ssl.SSLError, ValueError) as error:
            raise CertificateError(f"{CERTIFICATE} or {AUTHORITIES} cannot be used: {error}") from None


class _EncryptedKeyError(Exception):
    """The key needs a password."""


def _no_password() -> str:
    # OpenSSL would ask for one at the terminal.
    raise _EncryptedKeyError


def _peer(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> Mapping[str, Any]:
    """Return the server's certificate as the client has verified it."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname=host)
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(10):
        done = [_step(one) for one in (asking, answering)]
        if all(done):
            break
    found: Mapping[str, Any] | None = asking.getpeercert()
    if not found:
        raise CertificateError(f"{CERTIFICATE} cannot be read")
    return found


def _step(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
