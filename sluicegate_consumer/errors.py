"""What may go wrong, as the application sees it, and the error codes of brokers that the consumer acts upon."""

from enum import IntEnum


class ConsumerError(Exception):
    """The consumer cannot go on. It is raised to whoever iterates, and says why."""


class SettingsError(ConsumerError):
    """What the consumer was made with cannot be."""


class RegistrationRefusedError(ConsumerError):
    """The coordinator does not want this consumer, and would not want it later. `code` is the broker's error code."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class CorruptRecordsError(ConsumerError):
    """What a broker sent as records is not that, or not what the producer wrote."""


class FetchRefusedError(ConsumerError):
    """A broker does not let the consumer read a partition."""


class CommitRefusedError(ConsumerError):
    """The coordinator did not take the offsets of a `commit`."""


class CallbackFailedError(ConsumerError):
    """The application's listener raised an error, which is the cause of this one."""


class ProtocolError(Exception):
    """The other side sent what it may not: its connection ends, and another one is tried."""


class Code(IntEnum):
    """Kafka's error codes that mean something here."""

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
    """As people know it."""
    known = Code.__members__.values()
    return f"{Code(code).name} ({code})" if code in known else f"error {code}"
