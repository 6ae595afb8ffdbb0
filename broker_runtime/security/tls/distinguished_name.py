"""Write a certificate's subject as Apache Kafka's JVM does: RFC 2253, the most specific part first. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from broker_runtime.security.tls.der import Element, children, object_identifier

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The attributes with a name in RFC 2253 (section 2.3); any other is written by its number."""
_ENCODINGS = {0x0C: "utf-8", 0x13: "utf-8", 0x14: "utf-8", 0x16: "utf-8", 0x1B: "utf-8", 0x1E: "utf-16-be"}
"""Encodings of the types of text, by their tags."""
_ESCAPED = frozenset(',=+<>#;"\\')


class Attribute(NamedTuple):
    """An attribute of a distinguished name: its type as dotted numbers, and its value in DER."""

    type: str
    value: Element


def rfc2253(name: Element) -> str:
    """Return the text of a Name in DER, in the form of RFC 2253. Raises ValueError for a malformed Name."""
    return ",".join("+".join(map(_attribute, part)) for part in reversed(_parts(name)))


def _parts(name: Element) -> Sequence[Sequence[Attribute]]:
    return [[_read(pair) for pair in children(part)] for part in children(name)]


def _read(pair: Element) -> Attribute:
    kind, value = children(pair)
    return Attribute(object_identifier(kind), value)


def _attribute(attribute: Attribute) -> str:
    keyword = _KEYWORDS.get(attribute.type)
    encoding = _ENCODINGS.get(attribute.value.tag)
    if keyword is None or encoding is None:
        return f"{keyword or attribute.type}=#{attribute.value.der.hex()}"
    return f"{keyword}={_escaped(attribute.value.content.decode(encoding, 'replace'))}"


def _escaped(text: str) -> str:
    lead = len(text) - len(text.lstrip(" \r"))
    trail = len(text.rstrip(" \r"))
    return "".join(
        "\\00" if char == "\0" else f"\\{char}" if char in _ESCAPED or not lead <= at < trail else char
        for at, char in enumerate(text)
    )
