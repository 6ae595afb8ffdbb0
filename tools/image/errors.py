"""What an image cannot be made for."""


class ImageError(Exception):
    """An image cannot be made on this machine; the message says why and what a person can do about it."""
