"""Error codes of the transaction coordinator in old versions of its APIs. Pure."""

from broker_runtime.errors import ErrorCode

_FENCED_SINCE = 2


def code_in(code: ErrorCode, version: int) -> ErrorCode:
    """Return the code that a client of this version gets: before version 2 a fenced producer has an invalid epoch."""
    if code is ErrorCode.PRODUCER_FENCED and version < _FENCED_SINCE:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
