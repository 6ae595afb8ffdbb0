"""What a user is told who has asked for something that cannot be done."""


class BadUseError(Exception):
    """The sentence says what to do."""
