"""Blocks of PEM in a text (RFC 7468). Pure.

Like Apache Kafka it tolerates text around blocks, headers inside of them, CRLF, and empty lines.
"""

import re
from base64 import b64decode, b64encode
from typing import NamedTuple

from broker_runtime.errors import ConfigError

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_LINE = 64
CERTIFICATE = "CERTIFICATE"
_CERTIFICATES = (CERTIFICATE, "X509 CERTIFICATE", "TRUSTED CERTIFICATE")
_KEY = "PRIVATE KEY"


class PemBlock(NamedTuple):
    """A block of PEM: its label, and its content in DER.

    `headers` are lines of old encrypted keys, which OpenSSL needs.
    """

    label: str
    der: bytes
    headers: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"PemBlock({self.label})"

    @property
    def text(self) -> str:
        """Return the block as PEM text."""
        coded = b64encode(self.der).decode("ascii")
        lines = [coded[at : at + _LINE] for at in range(0, len(coded), _LINE)]
        headers = [*self.headers, ""] if self.headers else []
        return "\n".join([f"-----BEGIN {self.label}-----", *headers, *lines, f"-----END {self.label}-----", ""])


def certificates(text: str, source: str) -> list[PemBlock]:
    """Return the certificates of a PEM text in their order. Raises ConfigError, naming `source`, if there are none."""
    found = [block for block in _blocks(text, source) if block.label in _CERTIFICATES]
    if not found:
        raise ConfigError(
            f"{source} has no certificate; it must have blocks that begin with -----BEGIN CERTIFICATE-----"
        )
    return [PemBlock(CERTIFICATE, block.der) for block in found]


def private_key(text: str, source: str) -> PemBlock:
    """Return the private key of a PEM text. Raises ConfigError, naming `source`, unless there is exactly one."""
    found = [block for block in _blocks(text, source) if block.label.endswith(_KEY)]
    if len(found) != 1:
        raise ConfigError(
            f"{source} has {len(found) or 'no'} private key{'s' if found else ''}; it must have exactly one block that "
            "begins with -----BEGIN PRIVATE KEY----- or -----BEGIN ENCRYPTED PRIVATE KEY-----"
        )
    return found[0]


def _blocks(text: str, source: str) -> list[PemBlock]:
    found = []
    for match in _BLOCK.finditer(text):
        lines = [line.strip() for line in match[2].splitlines()]
        headers = tuple(line for line in lines if ":" in line)
        try:
            der = b64decode("".join(line for line in lines if ":" not in line), validate=True)
        except ValueError:
            raise ConfigError(f"{source}: a block {match[1]} is not valid base64; copy the file again") from None
        # Only these two matter: OpenSSL decrypts an old key by them, and takes any other header for a mistake.
        kept = tuple(line for line in headers if line.startswith(("Proc-Type:", "DEK-Info:")))
        found.append(PemBlock(match[1], der, kept))
    return found
