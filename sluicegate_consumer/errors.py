"""The errors that the application sees, and the brokers' error codes that the consumer handles."""

from enum import IntEnum


class ConsumerError(Exception):
    """Error of a consumer that cannot continue. Iterators raise it; the message gives the reason."""


class SettingsError(ConsumerError):
    """Error for invalid arguments or settings of the consumer."""


class AuthenticationError(ConsumerError):
    """Error of TLS or SASL: the certificate or the credentials are not accepted.

    The message contains no secret.
    """


class RegistrationRefusedError(ConsumerError):
    """Error for a consumer that the coordinator rejects, and would reject later, too.

    `code` is the broker's error code.
    """

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class CorruptRecordsError(ConsumerError):
    """Error for records from a broker that cannot be parsed, or that differ from what the producer wrote."""


class FetchRefusedError(ConsumerError):
    """Error for a partition that a broker does not let the consumer read."""


class CommitRefusedError(ConsumerError):
    """Error for offsets of a `commit` that the coordinator did not accept."""


class CallbackFailedError(ConsumerError):
    """Error after the application's listener has raised an error, which is the cause of this one."""


class ProtocolError(Exception):
    """Error for a violation of the protocol by the other side.

    Its connection is closed, and another one is tried.
    """


class Code(IntEnum):
    """Those of Kafka's error codes that the consumer handles."""

    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    REPLICA_NOT_AVAILABLE = 9
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    KAFKA_STORAGE_ERROR = 56
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    OFFSET_NOT_AVAILABLE = 78
    GROUP_MAX_SIZE_REACHED = 81
    UNRELEASED_INSTANCE_ID = 111
    INVALID_REGULAR_EXPRESSION = 128


def code_name(code: int) -> str:
    """Return the name and number of an error code."""
    known = Code.__members__.values()
    return f"{Code(code).name} ({code})" if code in known else f"error {code}"
