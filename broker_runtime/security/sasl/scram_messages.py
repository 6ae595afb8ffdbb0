"""The messages of SCRAM (RFC 5802), as a server reads and writes them. Pure. What cannot be read is refused."""

import re
from base64 import b64decode, b64encode
from binascii import Error
from dataclasses import dataclass

from broker_runtime.security.sasl.mechanism import SaslRefusedError

_NONCE = r"[\x21-\x2b\x2d-\x7e]++"
_SASL_NAME = r"(?:[^,=\0]++|=2C|=3D)++"
_BASE64 = r"[A-Za-z0-9/+]++={0,2}+"
_EXTENSIONS = r"(?P<extensions>(?:,(?!p=)[A-Za-z]++=[^,\0]++)*+)"
_CLIENT_FIRST = re.compile(
    rf"n,(?:a=(?P<authorization>{_SASL_NAME}))?,(?P<bare>(?:m=[^,\0]+,)?n=(?P<user>{_SASL_NAME}),r=(?P<nonce>{_NONCE})"
    rf"{_EXTENSIONS})",
    re.DOTALL,
)
_CLIENT_FINAL = re.compile(
    rf"(?P<without_proof>c=(?:{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})", re.DOTALL
)
_BYTES_MAX = 65_536
"""Bytes of a message. A longer one would hold the event loop for milliseconds."""


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """The client's first message in SCRAM. `bare` is the part without the GS2 header, unchanged."""

    user: str
    nonce: str
    authorization_id: str
    bare: str
    by_token: bool = False
    """Whether the client authenticates by a delegation token (KIP-48)."""


@dataclass(frozen=True, slots=True)
class ServerFirst:
    """The server's first message in SCRAM."""

    nonce: str
    salt: bytes
    iterations: int

    def text(self) -> str:
        return f"r={self.nonce},s={_base64(self.salt)},i={self.iterations}"


@dataclass(frozen=True, slots=True)
class ClientFinal:
    """The client's last message in SCRAM."""

    without_proof: str
    nonce: str
    proof: bytes


def server_final(signature: bytes) -> str:
    return f"v={_base64(signature)}"


def read_client_first(message: bytes) -> ClientFirst:
    found = _matched(_CLIENT_FIRST, message, "first message of the client")
    extensions = found["extensions"].split(",")
    return ClientFirst(
        _name(found["user"]),
        found["nonce"],
        _name(found["authorization"] or ""),
        found["bare"],
        any(extension.lower() == "tokenauth=true" for extension in extensions),
    )


def read_client_final(message: bytes) -> ClientFinal:
    found = _matched(_CLIENT_FINAL, message, "last message of the client")
    return ClientFinal(found["without_proof"], found["nonce"], _bytes(found["proof"]))


def _matched(form: re.Pattern[str], message: bytes, what: str) -> "re.Match[str]":
    if len(message) > _BYTES_MAX:
        raise SaslRefusedError(f"the {what} is longer than {_BYTES_MAX} bytes")
    try:
        found = form.fullmatch(message.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise SaslRefusedError(f"the {what} is not of SCRAM's form")
    return found


def _name(text: str) -> str:
    return text.replace("=2C", ",").replace("=3D", "=")


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Error:
        raise SaslRefusedError("a SCRAM message has a value that is not base64") from None
