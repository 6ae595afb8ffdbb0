"""The error for bytes that are not a record. Pure."""


class DamagedRecordError(ValueError):
    """Error for bytes that are not a coordinator's record.

    The message has the record's type, and its group if known.
    """
