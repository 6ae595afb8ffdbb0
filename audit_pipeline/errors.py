"""Errors with messages for users: invalid use, and work that was stopped."""


class BadUseError(Exception):
    """The user's request to the pipeline is invalid. The message says what to do."""


class StoppedError(Exception):
    """The caller of the pipeline has stopped it before it was complete. The next run does what is left."""


def never() -> bool:
    """Never stop: a stop condition for work that runs until it is complete. It returns False."""
    return False


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or its class name: for a log line, a summary or a status."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
