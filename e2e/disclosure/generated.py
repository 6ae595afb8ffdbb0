"""Find what must be shown nowhere: passwords, private keys and tokens in Secrets. Pure.

A needle is a text that no output may contain. A private key has many lines, which logs may escape or cut, so its needle
is one line of it. A token's needle is its signature, because no other part of it proves anything.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

NEEDLE_MIN = 8
"""Least characters of a needle: shorter texts are in outputs by chance."""
PUBLIC = frozenset({"config", "namespace", "username"})
"""Keys of Secrets whose values are public."""
_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
_RELEASES = "helm.sh/release.v1"
"""Type of Helm's Secrets with the manifests of a release."""
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+(.*?)-----END", re.DOTALL)
_TOKEN = re.compile(r"^[\w-]+\.[\w-]+\.[\w-]+$")


def of_secret(secret: Mapping[str, Any]) -> dict[str, str]:
    """Return the needles of a Secret of the API server, each with a name that shows nothing of it."""
    if secret.get("type") == _RELEASES:
        return {}
    metadata = secret["metadata"]
    found: dict[str, str] = {}
    for key, value in (secret.get("data") or {}).items():
        try:
            text = base64.b64decode(value).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue
        name = f"{key} of Secret {metadata['namespace']}/{metadata['name']}"
        found |= dict.fromkeys(of_value(key, text), name)
    return found


def of_value(key: str, text: str) -> Iterator[str]:
    """Yield the needles of a value, also as base64, in which Secrets are printed."""
    lines = [body.split() for body in _PRIVATE_KEY.findall(text)]
    plain = [key_lines[len(key_lines) // 2] for key_lines in lines if key_lines]
    if not plain and key not in PUBLIC and _CERTIFICATE not in text:
        stripped = text.strip()
        plain = [stripped.rpartition(".")[2] if _TOKEN.match(stripped) else stripped]
    for needle in plain:
        if len(needle) >= NEEDLE_MIN:
            yield needle
    if plain and len(text) >= NEEDLE_MIN:
        encoded = base64.b64encode(text.encode()).decode().rstrip("=")
        # The end of the text is not in full groups of base64, so another text behind it changes the last characters.
        yield encoded[: len(encoded) // 4 * 4]
