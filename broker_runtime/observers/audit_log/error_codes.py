"""The error code of a request, from the fields of its answer. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from broker_runtime.apis.request.call import Call
from broker_runtime.observers.audit_log.layout import UNKNOWN_ERROR

_LOOKED_AT_MAX: Final = 40
"""Structs of an answer that are searched, to keep the time short."""


def error_of(call: Call) -> int:
    """Return an error code in the answer of a call: 0 without one, and UNKNOWN_ERROR for a very long answer."""
    if call.error or call.fields is None:
        return call.error
    codes = _codes(call.fields)
    if code := next(filter(None, islice(codes, _LOOKED_AT_MAX)), 0):
        return code
    return 0 if next(codes, None) is None else UNKNOWN_ERROR


def _codes(answer: object) -> Iterator[int]:
    """Yield the error code of each struct in an answer, 0 for a struct without one."""
    if isinstance(answer, Mapping):
        code = answer.get("error_code")
        yield int(code) if isinstance(code, int) else 0
        for value in answer.values():
            yield from _codes(value)
    elif isinstance(answer, Sequence) and not isinstance(answer, str | bytes | bytearray | memoryview):
        for item in answer:
            yield from _codes(item)
