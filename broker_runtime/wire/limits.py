"""Limits of one request: items of its arrays, tagged fields, bytes. Pure.

Each count is checked when the request announces it, before anything is built from the items. Values come from the
configuration (`broker_runtime.node.limits.request_limits`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker_runtime.errors import ProtocolError

SMALL_BYTES = 1024
"""Size of a request in bytes up to which it cannot exceed a limit of items, and is read at once."""

READ_TEXT_BYTES_MAX = 65_536
"""Limit of a text's bytes.

Kafka reads 32,767; handlers reject texts that they find too long with errors of their own.
"""


def check_text(length: int) -> None:
    """Check the length of a text, in bytes. Raises ProtocolError for one above the limit."""
    if length > READ_TEXT_BYTES_MAX:
        raise ProtocolError("malformed", f"a text has {length} bytes; at most {READ_TEXT_BYTES_MAX} are allowed")


class RequestTooLargeError(ProtocolError):
    """Error for a request that exceeds a limit.

    The client gets INVALID_REQUEST if the response of the API has an error code; otherwise the connection ends.
    """


class ResponseTooLargeError(RequestTooLargeError):
    """Error for a request whose response would be too large."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The limits of requests; the defaults are those of the configuration keys.

    `items_max` holds for all arrays of a request together, nested ones included; `items_max_of` has other values by API
    key. `tagged_fields_max` and `tagged_bytes_max` hold for the tagged fields of one struct, and of the header.
    `bytes_max` is the size of a request other than Produce. `queued_response_bytes_max` holds for the responses of all
    connections together.
    """

    items_max: int = 50_000
    items_max_of: Mapping[int, int] = field(default_factory=dict)
    tagged_fields_max: int = 100
    tagged_bytes_max: int = 65_536
    bytes_max: int = 4_194_304
    response_bytes_max: int = 67_108_864
    queued_response_bytes_max: int = 536_870_912

    def items_of(self, api_key: int) -> int:
        return self.items_max_of.get(api_key, self.items_max)

    def check_tagged_fields(self, count: int) -> None:
        """Check the number of tagged fields of one struct. Raises RequestTooLargeError."""
        if count > self.tagged_fields_max:
            raise RequestTooLargeError(
                "too-many-tagged-fields",
                f"{count} tagged fields in one struct; at most {self.tagged_fields_max} are allowed "
                "(sluicegate.request.tagged.fields.max)",
            )

    def check_tagged_bytes(self, size: int) -> None:
        """Check the size of the tagged fields of one struct, in bytes. Raises RequestTooLargeError."""
        if size > self.tagged_bytes_max:
            raise RequestTooLargeError(
                "too-many-tagged-fields",
                f"{size} bytes of tagged fields in one struct; at most {self.tagged_bytes_max} are allowed "
                "(sluicegate.request.tagged.bytes.max)",
            )

    def check_response(self, size: int) -> None:
        """Check the number of bytes of a response so far. Raises ResponseTooLargeError."""
        if size > self.response_bytes_max:
            raise ResponseTooLargeError(
                "response-too-large",
                f"the response would exceed {self.response_bytes_max} bytes (sluicegate.response.max.bytes); split "
                "the request into several",
            )


DEFAULT_LIMITS = RequestLimits()


class ItemBudget:
    """The number of items that one request may still have."""

    __slots__ = ("_max", "left", "limits")

    def __init__(self, limits: RequestLimits, api_key: int) -> None:
        self.limits = limits
        self.left = self._max = limits.items_of(api_key)

    def take(self, count: int) -> None:
        """Count the items that an array announces. Raises RequestTooLargeError."""
        self.left -= count
        if self.left < 0:
            raise RequestTooLargeError(
                "too-many-items",
                f"more than {self._max} items in the arrays of one request (sluicegate.request.items.max); split "
                "the request into several",
            )
