"""Everything that can go wrong between the operator and a broker, as exceptions a handler can act on.

A `KafkaApiError` is the broker's own answer; the other kinds mean that there was no answer. `retriable` says whether
the same request may succeed later without anyone changing it.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from kio.schema.errors import ErrorCode

Item = TypeVar("Item")
Address = tuple[str, int]


def show(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class KafkaAdminError(Exception):
    """Base of all errors of this package."""

    retriable = False


class AdminConnectionError(KafkaAdminError):
    """No connection, or it ended before the reply; `reason` is half a sentence."""

    retriable = True

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(f"broker {show(address)}: {reason}")
        self.address = address
        self.reason = reason


class NoBrokerAnswersError(AdminConnectionError):
    """Several were asked, and each has failed in its own way; the address is that of the first."""

    def __init__(self, failures: Mapping[Address, KafkaAdminError]) -> None:
        self.address = next(iter(failures))
        self.reason = "; ".join(str(failure) for failure in failures.values())
        KafkaAdminError.__init__(self, self.reason)


class AdminProtocolError(AdminConnectionError):
    """The peer sent what is no Kafka reply; the connection was closed. Most likely this is no Kafka broker."""

    retriable = False


class AdminTimeoutError(KafkaAdminError):
    """The broker did not answer in time; whether it did what was asked is not known."""

    retriable = True

    def __init__(self, address: Address, api: str, timeout_s: float) -> None:
        super().__init__(f"broker {show(address)}: no answer to {api} within {timeout_s:g} s")
        self.address = address
        self.api = api
        self.timeout_s = timeout_s


class FencedError(KafkaAdminError):
    """Nothing was sent: this process may not change anything (any more), because another one may be at work."""

    retriable = True

    def __init__(self, address: Address, api: str) -> None:
        super().__init__(f"broker {show(address)}: {api} was not sent: the Lease is not held")


class UnsupportedApiError(KafkaAdminError):
    """The broker does not serve a version that this client speaks."""

    def __init__(self, address: Address, api: str, wanted: int, served: tuple[int, int] | None) -> None:
        offer = "does not serve it" if served is None else f"serves versions {served[0]} to {served[1]}"
        super().__init__(f"broker {show(address)}: {api} version {wanted} is needed, and the broker {offer}")
        self.address = address
        self.api = api


class KafkaApiError(KafkaAdminError):
    """The broker refused; `name` is Kafka's name of the error, `message` the broker's own words or None."""

    def __init__(self, code: int, message: str | None, subject: str) -> None:
        self.code = code
        self.name = error_name(code)
        self.message = message
        self.subject = subject
        self.retriable = is_retriable(code)
        super().__init__(f"{subject}: {self.name}: {message}" if message else f"{subject}: {self.name}")


def error_name(code: int) -> str:
    """Kafka's name; a code that is newer than this client keeps its number."""
    try:
        return ErrorCode(code).name.upper()
    except ValueError:
        return f"UNKNOWN_ERROR_CODE_{code}"


def is_retriable(code: int) -> bool:
    try:
        return ErrorCode(code).retriable
    except ValueError:
        return False


def check(code: ErrorCode, message: str | None, subject: str) -> None:
    """Raises KafkaApiError unless `code` is NONE."""
    if code is not ErrorCode.none:
        raise KafkaApiError(int(code), message, subject)


def only(items: Sequence[Item], subject: str) -> Item:
    """Of a reply to a request about one thing. Raises KafkaAdminError."""
    if len(items) != 1:
        raise KafkaAdminError(f"{subject}: expected one result, the broker sent {len(items)}")
    return items[0]
