"""The one error that callers of this package handle."""


class InvalidLimitError(ValueError):
    """A limit that the quotas do not accept: the message names the key, the value and the allowed values."""
