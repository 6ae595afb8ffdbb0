"""Statuses under CRDs that are older than the operator: the API server refuses a whole apply for one field that it does
not know, so what it names is left out, and the rest is told."""

import re
from collections.abc import Mapping
from typing import Any

_NAMED = re.compile(r"\.status((?:\.\w+)+): field not declared in schema")


def undeclared_fields(refusal: str) -> tuple[str, ...]:
    """Paths below status, as `storage.size`, of what the refusal names; of fields in lists none is named."""
    return tuple(dict.fromkeys(path.removeprefix(".") for path in _NAMED.findall(refusal)))


def without_fields(status: Mapping[str, Any], paths: tuple[str, ...]) -> dict[str, Any]:
    told = dict(status)
    for path in paths:
        name, _, rest = path.partition(".")
        if not rest:
            told.pop(name, None)
        elif isinstance(told.get(name), Mapping):
            told[name] = without_fields(told[name], (rest,))
    return told
