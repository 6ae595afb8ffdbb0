"""The error of all readers of this package."""


class FormatError(ValueError):
    """Error for bytes that do not have the expected format."""


class TruncatedError(FormatError):
    """Error for bytes that end before the last field."""
