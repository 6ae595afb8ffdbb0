"""The operations that a client may perform on a resource: all, as in Apache Kafka without an authorizer. Pure.

Each operation is a bit whose position is the operation's number in the protocol (KIP-430).
"""

from broker_runtime.security.acls.model import AclOperation

NOT_ASKED = -(2**31)
"""The value of an answer if the request does not ask for operations, or the resource has an error."""


def _bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


ON_TOPIC = _bits(
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
ON_GROUP = _bits(
    AclOperation.READ,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
ON_CLUSTER = _bits(
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)
