"""The operations that a client may perform on a resource: all, as in Apache Kafka without an authorizer. Pure.

Each operation is a bit whose position is the operation's number in the protocol (KIP-430).
"""

from enum import IntEnum

NOT_ASKED = -(2**31)
"""The value if the request does not ask for operations, or the resource has an error."""


class _Operation(IntEnum):
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def _bits(*operations: _Operation) -> int:
    return sum(1 << operation for operation in operations)


_ALL = _Operation
ON_TOPIC = _bits(
    _ALL.READ,
    _ALL.WRITE,
    _ALL.CREATE,
    _ALL.DELETE,
    _ALL.ALTER,
    _ALL.DESCRIBE,
    _ALL.DESCRIBE_CONFIGS,
    _ALL.ALTER_CONFIGS,
)
ON_GROUP = _bits(_ALL.READ, _ALL.DELETE, _ALL.DESCRIBE, _ALL.DESCRIBE_CONFIGS, _ALL.ALTER_CONFIGS)
ON_CLUSTER = _bits(
    _ALL.CREATE,
    _ALL.ALTER,
    _ALL.DESCRIBE,
    _ALL.CLUSTER_ACTION,
    _ALL.DESCRIBE_CONFIGS,
    _ALL.ALTER_CONFIGS,
    _ALL.IDEMPOTENT_WRITE,
)
