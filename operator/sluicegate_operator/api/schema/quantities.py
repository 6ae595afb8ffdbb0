"""Kubernetes quantities.

In Sluicegate's manifests they are positive, without exponents; CEL has `quantity()` for them. The API server may return
others, for example the capacity of a volume that a user has created as 1e12.
"""

import re
from decimal import Context, Decimal, localcontext
from typing import Annotated

from pydantic import Field

QUANTITY_PATTERN = "^[0-9]+([.][0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
_UNITS = {"": Decimal(1), "m": Decimal("0.001")}
_UNITS |= {prefix: Decimal(1000) ** (at + 1) for at, prefix in enumerate("kMGTPE")}
_UNITS |= {f"{prefix}i": Decimal(1024) ** (at + 1) for at, prefix in enumerate("KMGTPE")}

Quantity = Annotated[str, Field(max_length=32)]
_EXACT = Context(prec=64)
"""Enough digits for every quantity in every unit: 32 digits of exa are 51, and 32 digits after the point fit."""
_STORED = re.compile("([+-]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+))(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]{1,3})?")
_STORED_UNITS = {**_UNITS, "u": Decimal("1e-6"), "n": Decimal("1e-9")}


def is_quantity(text: str) -> bool:
    return re.fullmatch(QUANTITY_PATTERN, text) is not None


def amount(text: str) -> Decimal:
    """Return the number in a valid quantity."""
    number = text.rstrip("mkMGTPEKi")
    return _EXACT.multiply(Decimal(number), _UNITS[text[len(number) :]])


def stored_amount(text: str) -> Decimal:
    """Return the number in a quantity of the API server; zero for other text."""
    match = _STORED.fullmatch(text)
    if match is None:
        return Decimal(0)
    unit = match[2] or ""
    if unit in _STORED_UNITS:
        return _EXACT.multiply(Decimal(match[1]), _STORED_UNITS[unit])
    return _EXACT.create_decimal(f"{match[1]}{unit}")


def canonical_quantity(text: str) -> str:
    """Return the same text for all quantities of the same amount.

    The text has the largest unit that needs no fraction: 1Gi for 1024Mi, 1 for 1000m.
    """
    value = amount(text)
    with localcontext(_EXACT):
        prefixes = "KMGTPE" if value and value % 1024 == 0 else "kMGTPE"
        units = [f"{prefix}i" if prefixes[0] == "K" else prefix for prefix in reversed(prefixes)]
        for unit in [*units, "", "m"]:
            if value and value % _UNITS[unit] == 0:
                return f"{value / _UNITS[unit]:f}".split(".")[0] + unit
        return f"{value.normalize():f}"
