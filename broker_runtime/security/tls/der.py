"""Read elements of DER (X.690), as far as certificates need it. Pure."""

from typing import NamedTuple

_LONG = 0x80


class Element(NamedTuple):
    """An element in DER: its tag, its content, and all of its bytes."""

    tag: int
    content: bytes
    der: bytes


def element(data: bytes, at: int = 0) -> Element:
    """Return the DER element that begins at `at`. Raises ValueError for a malformed or cut off element."""
    if at + 2 > len(data):
        raise ValueError("an element of a certificate is cut off")
    length, begin = data[at + 1], at + 2
    if length >= _LONG:
        count = length - _LONG
        if not 1 <= count <= 4:
            raise ValueError("an element of a certificate has an unusable length")
        length, begin = int.from_bytes(data[begin : begin + count], "big"), begin + count
    end = begin + length
    if end > len(data):
        raise ValueError("an element of a certificate is cut off")
    return Element(data[at], data[begin:end], data[at:end])


def children(parent: Element) -> list[Element]:
    """Return the DER elements that are the content of `parent`. Raises ValueError."""
    found, at = [], 0
    while at < len(parent.content):
        child = element(parent.content, at)
        found.append(child)
        at += len(child.der)
    return found


def object_identifier(read: Element) -> str:
    """Return an object identifier as dotted numbers. Raises ValueError."""
    numbers, number = [], 0
    for byte in read.content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise ValueError("a certificate has an empty object identifier")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))
