"""The error of image builds."""


class ImageError(Exception):
    """Error for an image that cannot be made on this machine.

    The message gives the reason and what the user can do.
    """
