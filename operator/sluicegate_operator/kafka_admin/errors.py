"""All errors between the operator and a broker, as exceptions that a handler can act on.

A `KafkaApiError` is the broker's own answer; the other kinds mean that the broker did not answer. `retriable` is
whether the same request may succeed later without any other change.
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
    """Base class of the errors of Kafka's admin requests."""

    retriable = False


class AdminConnectionError(KafkaAdminError):
    """Error without a connection, or of a connection that ended before the reply. `reason` is half a sentence."""

    retriable = True

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(f"broker {show(address)}: {reason}")
        self.address = address
        self.reason = reason


class AuthenticationError(AdminConnectionError):
    """Error of a failed TLS handshake, or of refused credentials.

    A later attempt may succeed with other certificates or another Secret.
    """


class NoBrokerAnswersError(AdminConnectionError):
    """Error if several brokers were tried and all failed. The address is that of the first broker."""

    def __init__(self, failures: Mapping[Address, KafkaAdminError]) -> None:
        self.address = next(iter(failures))
        self.failures = tuple(failures.values())
        self.reason = "; ".join(str(failure) for failure in failures.values())
        KafkaAdminError.__init__(self, self.reason)


class AdminProtocolError(AdminConnectionError):
    """Error for bytes that are not a Kafka reply. The connection was closed.

    Most likely the peer is not a Kafka broker.
    """

    retriable = False


class AdminTimeoutError(KafkaAdminError):
    """Error if the broker did not answer in time. Whether it executed the request is unknown."""

    retriable = True

    def __init__(self, address: Address, api: str, timeout_s: float) -> None:
        super().__init__(f"broker {show(address)}: no answer to {api} within {timeout_s:g} s")
        self.address = address
        self.api = api
        self.timeout_s = timeout_s


class FencedError(KafkaAdminError):
    """Error for a request that was not sent: this process may not change anything now.

    Another process may be active.
    """

    retriable = True

    def __init__(self, address: Address, api: str) -> None:
        super().__init__(f"broker {show(address)}: {api} was not sent, because this process does not hold the Lease")


class UnsupportedApiError(KafkaAdminError):
    """Error if the broker serves no version of the API that this client supports."""

    def __init__(self, address: Address, api: str, wanted: int, served: tuple[int, int] | None) -> None:
        offer = "does not serve it" if served is None else f"serves versions {served[0]} to {served[1]}"
        super().__init__(f"broker {show(address)}: {api} version {wanted} is needed, but the broker {offer}")
        self.address = address
        self.api = api


class KafkaApiError(KafkaAdminError):
    """A broker has refused an admin request.

    `name` is Kafka's name of the error, `message` the broker's message or None.
    """

    def __init__(self, code: int, message: str | None, subject: str) -> None:
        self.code = code
        self.name = error_name(code)
        self.message = message
        self.subject = subject
        self.retriable = is_retriable(code)
        super().__init__(f"{subject}: {self.name}: {message}" if message else f"{subject}: {self.name}")


def is_refusal(error: Exception) -> bool:
    """Return whether a broker has refused a request for good, so that it would refuse the same request again."""
    return isinstance(error, KafkaApiError) and not error.retriable


def error_name(code: int) -> str:
    """Return Kafka's name of an error. A code that is newer than this client is shown as a number."""
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
    """Raise KafkaApiError if a broker's answer has another error code than NONE."""
    if code is not ErrorCode.none:
        raise KafkaApiError(int(code), message, subject)


def only(items: Sequence[Item], subject: str) -> Item:
    """Return the single result in the answer to a request about one object.

    Raises KafkaAdminError for any other number of results.
    """
    if len(items) != 1:
        raise KafkaAdminError(f"{subject}: expected one result, the broker sent {len(items)}")
    return items[0]
