"""Numbers as Java's parsers read them, so that Apache Kafka and this broker get the same value. Pure.

Python's own `int` and `float` accept more: underscores between digits, other alphabets, blanks of all kinds.
"""

import re
from decimal import Decimal
from math import inf, isfinite

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)")
_BLANKS = "".join(map(chr, range(0x21)))


def trim(text: str) -> str:
    """Return the text without surrounding blanks and control characters, like Java's String.trim."""
    return text.strip(_BLANKS)


def parse_integer(text: str) -> int:
    """Parse a sign and decimal digits. Raises ValueError for anything else; the caller checks the range."""
    if _INTEGER.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def parse_double(text: str) -> float:
    """Parse a number like Java's Double.parseDouble, except its hexadecimal form. Raises ValueError otherwise."""
    if _DOUBLE.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a number")
    return float(text.rstrip("fFdD"))


def render_double(value: float) -> str:
    """Return the text of the number, like Java's Double.toString."""
    if not isfinite(value):
        return {inf: "Infinity", -inf: "-Infinity"}.get(value, "NaN")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{Decimal(repr(value)).normalize():E}".partition("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"
