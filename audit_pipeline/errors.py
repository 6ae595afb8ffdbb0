"""Errors with messages for users: invalid use, and work that was stopped."""


class BadUseError(Exception):
    """The request is invalid; the message says what to do."""


class StoppedError(Exception):
    """The caller has stopped the work; the next run does what is left."""


def never() -> bool:
    """Return a stop condition that is never true."""
    return False


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or its class name: for a log line, a summary or a status."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
