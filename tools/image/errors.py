"""The error of image builds."""


class ImageError(Exception):
    """An image cannot be made on this machine; the message gives the reason and what the user can do about it."""
