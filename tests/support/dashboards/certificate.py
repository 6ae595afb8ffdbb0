"""A self-signed certificate that a test makes for itself (X.509, ECDSA with P-256 and SHA-256; RFC 5280, SEC 1)."""

import base64
import hashlib
import secrets
from dataclasses import dataclass
from pathlib import Path

_P = 0xFFFFFFFF00000001000000000000000000000000FFFFFFFFFFFFFFFFFFFFFFFF
_N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_BASE = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
_ECDSA_SHA256 = bytes.fromhex("06082a8648ce3d040302")
_PUBLIC_KEY = bytes.fromhex("06072a8648ce3d0201")
_P256 = bytes.fromhex("06082a8648ce3d030107")
_COMMON_NAME = bytes.fromhex("0603550403")
_ALTERNATIVE_NAMES = bytes.fromhex("0603551d11")

_Point = tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Certificate:
    """Files in PEM, as `ssl` loads them."""

    certificate: Path
    key: Path


def make_certificate(folder: Path, host: str) -> Certificate:
    """Make a certificate for one host name, valid at any time that a test may run."""
    private = secrets.randbelow(_N - 1) + 1
    x, y = _multiplied(_BASE, private) or (0, 0)
    public = b"\x04" + x.to_bytes(32, "big") + y.to_bytes(32, "big")
    name = _sequence(_tagged(0x31, _sequence(_COMMON_NAME, _tagged(0x0C, host.encode()))))
    names = _sequence(_tagged(0x82, host.encode()))
    content = _sequence(
        _tagged(0xA0, _number(2)),
        _number(secrets.randbits(63) | 1),
        _sequence(_ECDSA_SHA256),
        name,
        _sequence(_tagged(0x18, b"20000101000000Z"), _tagged(0x18, b"21000101000000Z")),
        name,
        _sequence(_sequence(_PUBLIC_KEY, _P256), _tagged(0x03, b"\0" + public)),
        _tagged(0xA3, _sequence(_sequence(_ALTERNATIVE_NAMES, _tagged(0x04, names)))),
    )
    signed = _sequence(content, _sequence(_ECDSA_SHA256), _tagged(0x03, b"\0" + _signature(content, private)))
    key = _sequence(_number(1), _tagged(0x04, private.to_bytes(32, "big")), _tagged(0xA0, _P256))
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    made.certificate.write_text(_pem("CERTIFICATE", signed))
    made.key.write_text(_pem("EC PRIVATE KEY", key))
    return made


def _signature(content: bytes, private: int) -> bytes:
    digest = int.from_bytes(hashlib.sha256(content).digest(), "big")
    while True:
        nonce = secrets.randbelow(_N - 1) + 1
        r = (_multiplied(_BASE, nonce) or (0, 0))[0] % _N
        s = pow(nonce, -1, _N) * (digest + r * private) % _N
        if r and s:
            return _sequence(_number(r), _number(s))


def _multiplied(point: _Point, factor: int) -> _Point:
    total: _Point = None
    while factor:
        if factor & 1:
            total = _sum(total, point)
        point = _sum(point, point)
        factor >>= 1
    return total


def _sum(one: _Point, other: _Point) -> _Point:
    if one is None or other is None:
        return one or other
    if one[0] == other[0]:
        if (one[1] + other[1]) % _P == 0:
            return None
        slope = (3 * one[0] * one[0] - 3) * pow(2 * one[1], -1, _P) % _P
    else:
        slope = (other[1] - one[1]) * pow(other[0] - one[0], -1, _P) % _P
    x = (slope * slope - one[0] - other[0]) % _P
    return x, (slope * (one[0] - x) - one[1]) % _P


def _tagged(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def _sequence(*parts: bytes) -> bytes:
    return _tagged(0x30, b"".join(parts))


def _number(value: int) -> bytes:
    return _tagged(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _pem(kind: str, content: bytes) -> str:
    text = base64.encodebytes(content).decode()
    return f"-----BEGIN {kind}-----\n{text}-----END {kind}-----\n"
