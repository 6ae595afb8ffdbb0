"""The CEL functions that rules in CRDs may call, and which functions a CEL expression calls.

The oldest supported API server has all of them; e2e/operator/test_crds.py asks it. A function that a rule needs may be
added here only if that API server has it.
"""

import re

MACROS = frozenset({"all", "exists", "exists_one", "filter", "has", "map"})
_OF_TYPES = {"bool", "double", "duration", "int", "size", "string", "timestamp", "type", "uint"}
_OF_TEXTS = {"charAt", "contains", "endsWith", "find", "findAll", "join", "lowerAscii", "matches", "replace", "split"}
_OF_TEXTS |= {"startsWith", "substring", "trim", "upperAscii"}
_OF_LISTS = {"indexOf", "isSorted", "lastIndexOf", "max", "min", "sum"}
_OF_QUANTITIES = {"compareTo", "isInteger", "isQuantity", "quantity"}
_OF_ADDRESSES = {"cidr", "containsCIDR", "containsIP", "family", "ip", "isCIDR", "isIP", "isURL", "masked", "url"}
_OF_ADDRESSES |= {"prefixLength"}
FUNCTIONS = frozenset(_OF_TYPES | _OF_TEXTS | _OF_LISTS | _OF_QUANTITIES | _OF_ADDRESSES)
_LITERAL = re.compile(r"""'(\\.|[^'\\])*'|"(\\.|[^"\\])*\"""")
_CALL = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*\(")


def called(cel: str) -> frozenset[str]:
    """Names of the functions and macros that `cel` calls."""
    return frozenset(_CALL.findall(_LITERAL.sub("''", cel)))
