"""What a user is told: of what cannot be done, and of what failed."""


class BadUseError(Exception):
    """The sentence says what to do."""


class StoppedError(Exception):
    """Whoever waits for it wants no more of it; what it has left undone the next one does."""


def never() -> bool:
    """Of what nobody stops."""
    return False


def first_line(error: BaseException) -> str:
    """What it says first, or its name: for a log line, a summary or a status."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
