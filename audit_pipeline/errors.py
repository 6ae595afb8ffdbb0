"""What a user is told: of what cannot be done, and of what failed."""


class BadUseError(Exception):
    """The sentence says what to do."""


def first_line(error: BaseException) -> str:
    """What it says first, or its name: for a log line, a summary or a status."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
