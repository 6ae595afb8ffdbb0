"""Reads frames of the push protocol with the broker's errors. Pure; `kafka_bytes.push` has the messages."""

from typing import TypeVar

from broker_runtime.errors import ProtocolError
from broker_runtime.slicing.steps import Steps, at_once
from kafka_bytes.errors import FormatError, TruncatedError
from kafka_bytes.push import fields, partition_text
from kafka_bytes.push.layouts import Layout

M = TypeVar("M")


class UnfitError(ProtocolError):
    """Error for a message with a value beyond its limit, in `field`."""

    def __init__(self, text: str, field: str) -> None:
        super().__init__("malformed", text)
        self.field = field


def read_message(layout: Layout[M], frame: memoryview) -> M:
    """Read a push message from a frame without its size.

    Raises ProtocolError, and UnfitError for a value beyond its limit.
    """
    return at_once(message_in_steps(layout, frame))


def message_in_steps(layout: Layout[M], frame: memoryview) -> Steps[M]:
    """Read a push message from a frame without its size, in steps for long lists.

    Raises ProtocolError, and UnfitError for a value beyond its limit.
    """
    try:
        return (yield from layout.read_in_steps(frame))
    except fields.UnfitError as error:
        raise UnfitError(str(error), error.field) from None
    except TruncatedError:
        raise ProtocolError("truncated", "the request ends in the middle of its fields") from None
    except FormatError as error:
        raise ProtocolError("malformed", str(error)) from None


def partition_number(text: str) -> int:
    """Return the partition in a partition's text, whatever broker the text names: leaders change.

    Raises ProtocolError.
    """
    try:
        return partition_text.read_partition(text)[1]
    except FormatError as error:
        raise ProtocolError("malformed", str(error)) from None
