"""Errors of a release."""


class ReleaseError(Exception):
    """The release cannot be made. The message says why, and what to do."""
