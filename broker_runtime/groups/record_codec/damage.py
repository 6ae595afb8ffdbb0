"""What is wrong with bytes that are no record. Pure."""


class DamagedRecordError(ValueError):
    """Bytes that are no record of a coordinator; the message says of which type, and of which group if it is known."""
