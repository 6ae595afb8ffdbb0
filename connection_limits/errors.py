"""The one error that callers of this package handle."""


class InvalidLimitError(ValueError):
    """Error for a connection limit that the quotas do not accept.

    The message names the key, the value and the allowed values.
    """
