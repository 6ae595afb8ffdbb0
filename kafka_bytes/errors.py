"""The error of all readers of this package."""


class FormatError(ValueError):
    """The bytes do not have the expected format."""


class TruncatedError(FormatError):
    """The bytes end before the last field."""
