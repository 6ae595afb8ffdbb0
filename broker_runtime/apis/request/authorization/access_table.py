"""What each API asks the authorizer, and what a denied client sees: as in Apache Kafka 4.3 (KIP-11 and later). Pure.

Handlers take operations and error codes from this table, and docs/reference/authorization.md is made of it. An API that
is not in the table checks nothing.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from broker_runtime.errors import ErrorCode
from broker_runtime.security.acls.model import AclOperation, AclResource
from broker_runtime.wire import versions
from kafka_bytes import own_keys

_TOPIC, _GROUP, _CLUSTER = AclResource.TOPIC, AclResource.GROUP, AclResource.CLUSTER
_TRANSACTION = AclResource.TRANSACTIONAL_ID
_READ, _WRITE, _CREATE, _DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE
_ALTER, _DESCRIBE, _ACTION = AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION
_DESCRIBE_CONFIGS, _ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
_CODES = {
    _TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    _GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    _CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    _TRANSACTION: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Check(NamedTuple):
    """One check of permissions that an API makes.

    `denied` describes the result for a denied client, for the documentation.
    """

    resource: AclResource
    operation: AclOperation
    denied: str
    code: ErrorCode = ErrorCode.NONE
    """The error code of a denied check, if it is not the usual one of the resource."""
    at_gate: bool = False
    """Whether `access_gate` refuses the whole request; otherwise the handler checks."""

    @property
    def has_error(self) -> bool:
        """Return whether a denied client gets an error.

        Otherwise the client gets a shorter answer, or another check decides.
        """
        return "error" in self.denied


def _whole(resource: AclResource, operation: AclOperation) -> tuple[Check, ...]:
    return (Check(resource, operation, "error for the whole request", at_gate=True),)


def _items(resource: AclResource, operation: AclOperation, item: str) -> tuple[Check, ...]:
    return (Check(resource, operation, f"error for each denied {item}"),)


_OF_A_GROUP = _whole(_GROUP, _READ)
_OF_BROKERS = _whole(_CLUSTER, _ACTION)
_ANSWERED = (Check(_GROUP, _READ, "the connection is closed: the coordinator calls, and a consumer answers"),)
_CONFIGURED = "error for each denied resource: topics, groups, and the cluster for all others"
_ERROR = "error"

CHECKS: Mapping[int, Sequence[Check]] = {
    versions.PRODUCE: (
        *_items(_TOPIC, _WRITE, "partition; with acks=0 the connection is closed"),
        Check(_TRANSACTION, _WRITE, "error for every partition"),
    ),
    versions.FETCH: (
        *_items(_TOPIC, _READ, "partition"),
        Check(
            _CLUSTER,
            _ACTION,
            "instead, for a follower: error for every partition; for metadata: error for the whole request",
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ),
    ),
    versions.LIST_OFFSETS: _items(_TOPIC, _DESCRIBE, "partition"),
    versions.METADATA: (
        Check(_TOPIC, _DESCRIBE, "a topic that the request names gets the error; others are not in the answer"),
        Check(_TOPIC, _CREATE, "a topic that does not exist gets the error, unless CREATE on the cluster is allowed"),
        Check(_CLUSTER, _CREATE, "see CREATE on the topic"),
        Check(_CLUSTER, _DESCRIBE, "the authorized operations of the cluster are 0"),
    ),
    versions.OFFSET_COMMIT: (
        Check(_GROUP, _READ, "error for every partition"),
        *_items(_TOPIC, _READ, "partition"),
    ),
    versions.OFFSET_FETCH: (
        Check(_GROUP, _DESCRIBE, "error for the group"),
        Check(_TOPIC, _DESCRIBE, "error for each named partition; without names, the topic is not in the answer"),
    ),
    versions.FIND_COORDINATOR: (
        Check(_GROUP, _DESCRIBE, "error for the key"),
        Check(_TRANSACTION, _DESCRIBE, "error for the key"),
        Check(_CLUSTER, _ACTION, "error for the key of a share group"),
    ),
    versions.JOIN_GROUP: _OF_A_GROUP,
    versions.HEARTBEAT: _OF_A_GROUP,
    versions.LEAVE_GROUP: _OF_A_GROUP,
    versions.SYNC_GROUP: _OF_A_GROUP,
    versions.DESCRIBE_GROUPS: _items(_GROUP, _DESCRIBE, "group"),
    versions.LIST_GROUPS: (
        Check(_CLUSTER, _DESCRIBE, "groups without DESCRIBE are not in the answer"),
        Check(_GROUP, _DESCRIBE, "the group is not in the answer"),
    ),
    versions.CREATE_TOPICS: (
        Check(_CLUSTER, _CREATE, "each topic needs CREATE on itself"),
        *_items(_TOPIC, _CREATE, "topic"),
        Check(_TOPIC, _DESCRIBE_CONFIGS, "the topic is created; the answer has no configuration of it"),
    ),
    versions.DELETE_TOPICS: (
        Check(_CLUSTER, _DELETE, "each topic needs DELETE on itself"),
        *_items(_TOPIC, _DELETE, "topic"),
        Check(_TOPIC, _DESCRIBE, "the answer hides the name of a topic that the request names by id"),
    ),
    versions.DELETE_RECORDS: _items(_TOPIC, _DELETE, "partition"),
    versions.INIT_PRODUCER_ID: (
        Check(_CLUSTER, AclOperation.IDEMPOTENT_WRITE, "error, unless WRITE on any topic is allowed"),
        Check(_TOPIC, _WRITE, "see IDEMPOTENT_WRITE"),
        Check(_TRANSACTION, _WRITE, "error"),
    ),
    versions.ADD_PARTITIONS_TO_TXN: (
        Check(_TRANSACTION, _WRITE, "error for every partition"),
        *_items(_TOPIC, _WRITE, "partition"),
        Check(_CLUSTER, _ACTION, "instead, from version 4: error for the whole request"),
    ),
    versions.ADD_OFFSETS_TO_TXN: (Check(_TRANSACTION, _WRITE, _ERROR), Check(_GROUP, _READ, _ERROR)),
    versions.TXN_OFFSET_COMMIT: (
        Check(_TRANSACTION, _WRITE, "error for every partition"),
        Check(_GROUP, _READ, "error for every partition"),
        *_items(_TOPIC, _READ, "partition"),
    ),
    versions.END_TXN: (Check(_TRANSACTION, _WRITE, _ERROR),),
    versions.DESCRIBE_TRANSACTIONS: (
        Check(_TRANSACTION, _DESCRIBE, "error for the id"),
        Check(_TOPIC, _DESCRIBE, "the topic is not in the answer"),
    ),
    versions.LIST_TRANSACTIONS: (Check(_TRANSACTION, _DESCRIBE, "the id is not in the answer"),),
    versions.OFFSET_FOR_LEADER_EPOCH: (
        *_items(_TOPIC, _DESCRIBE, "partition"),
        Check(_CLUSTER, _ACTION, "each topic needs DESCRIBE on itself"),
    ),
    versions.DESCRIBE_ACLS: _whole(_CLUSTER, _DESCRIBE),
    versions.CREATE_ACLS: (Check(_CLUSTER, _ALTER, "error for every ACL"),),
    versions.DELETE_ACLS: (Check(_CLUSTER, _ALTER, "error for every filter"),),
    versions.DESCRIBE_CONFIGS: (
        Check(_TOPIC, _DESCRIBE_CONFIGS, _CONFIGURED),
        Check(_GROUP, _DESCRIBE_CONFIGS, _CONFIGURED),
        Check(_CLUSTER, _DESCRIBE_CONFIGS, _CONFIGURED),
    ),
    versions.ALTER_CONFIGS: (
        Check(_TOPIC, _ALTER_CONFIGS, _CONFIGURED),
        Check(_GROUP, _ALTER_CONFIGS, _CONFIGURED),
        Check(_CLUSTER, _ALTER_CONFIGS, _CONFIGURED),
    ),
    versions.INCREMENTAL_ALTER_CONFIGS: (
        Check(_TOPIC, _ALTER_CONFIGS, _CONFIGURED),
        Check(_GROUP, _ALTER_CONFIGS, _CONFIGURED),
        Check(_CLUSTER, _ALTER_CONFIGS, _CONFIGURED),
    ),
    versions.ALTER_REPLICA_LOG_DIRS: (Check(_CLUSTER, _ALTER, "error for every partition"),),
    versions.DESCRIBE_LOG_DIRS: (Check(_CLUSTER, _DESCRIBE, "an answer without folders; from version 3 the error"),),
    versions.CREATE_PARTITIONS: _items(_TOPIC, _ALTER, "topic"),
    versions.DELETE_GROUPS: _items(_GROUP, _DELETE, "group"),
    versions.ELECT_LEADERS: (Check(_CLUSTER, _ALTER, "error for the request and every partition"),),
    versions.ALTER_PARTITION_REASSIGNMENTS: (Check(_CLUSTER, _ALTER, "error for the request and every partition"),),
    versions.LIST_PARTITION_REASSIGNMENTS: _whole(_CLUSTER, _DESCRIBE),
    versions.WRITE_TXN_MARKERS: (
        Check(_CLUSTER, _ACTION, "error for every partition, unless ALTER on the cluster is allowed"),
        Check(_CLUSTER, _ALTER, "see CLUSTER_ACTION"),
    ),
    versions.OFFSET_DELETE: (
        Check(_GROUP, _DELETE, "error for the whole request"),
        *_items(_TOPIC, _READ, "partition"),
    ),
    versions.DESCRIBE_CLIENT_QUOTAS: _whole(_CLUSTER, _DESCRIBE_CONFIGS),
    versions.ALTER_CLIENT_QUOTAS: (Check(_CLUSTER, _ALTER_CONFIGS, "error for every entity"),),
    versions.DESCRIBE_QUORUM: _whole(_CLUSTER, _DESCRIBE),
    versions.UPDATE_FEATURES: _whole(_CLUSTER, _ALTER),
    versions.DESCRIBE_CLUSTER: (
        Check(_CLUSTER, _DESCRIBE, "the authorized operations of the cluster are 0"),
        Check(_CLUSTER, _ALTER, "on a controller's listener: error for the whole request"),
    ),
    versions.DESCRIBE_PRODUCERS: _items(_TOPIC, _READ, "partition"),
    versions.UNREGISTER_BROKER: _whole(_CLUSTER, _ALTER),
    versions.CONSUMER_GROUP_HEARTBEAT: (
        Check(_GROUP, _READ, "error for the whole request"),
        Check(_TOPIC, _DESCRIBE, "error for the request if it names the topic; topics of a pattern are not checked"),
    ),
    versions.CONSUMER_GROUP_DESCRIBE: (
        *_items(_GROUP, _DESCRIBE, "group"),
        Check(_TOPIC, _DESCRIBE, "error for a group whose members have the topic; its members are not in the answer"),
    ),
    versions.DESCRIBE_USER_SCRAM_CREDENTIALS: _whole(_CLUSTER, _DESCRIBE),
    versions.ALTER_USER_SCRAM_CREDENTIALS: (Check(_CLUSTER, _ALTER, "error for every user"),),
    versions.LIST_CONFIG_RESOURCES: _whole(_CLUSTER, _DESCRIBE_CONFIGS),
    versions.DESCRIBE_TOPIC_PARTITIONS: (
        Check(_TOPIC, _DESCRIBE, "a topic that the request names gets the error; others are not in the answer"),
    ),
    versions.ALTER_PARTITION: _OF_BROKERS,
    versions.ENVELOPE: _OF_BROKERS,
    versions.FETCH_SNAPSHOT: _OF_BROKERS,
    versions.BROKER_REGISTRATION: _OF_BROKERS,
    versions.BROKER_HEARTBEAT: _OF_BROKERS,
    versions.ALLOCATE_PRODUCER_IDS: _OF_BROKERS,
    own_keys.REPLICA_RANGE: _OF_BROKERS,
    own_keys.CONNECTION_SHARES: _OF_BROKERS,
    own_keys.DESCRIBE_LOG_DAMAGE: _whole(_CLUSTER, _DESCRIBE),
    own_keys.ACCEPT_LOG_LOSS: _whole(_CLUSTER, _ALTER),
    own_keys.CLUSTER_METADATA: (Check(_GROUP, _DESCRIBE, _ERROR),),
    own_keys.PING: _ANSWERED,
    own_keys.STOP_FETCHER: _ANSWERED,
    own_keys.START_FETCHER: _ANSWERED,
    own_keys.REGISTER_CONSUMER: (Check(_GROUP, _READ, _ERROR), Check(_TOPIC, _READ, _ERROR)),
}
UNCHECKED: Mapping[int, str] = {
    versions.API_VERSIONS: "Clients need it before they can do anything else.",
    versions.SASL_HANDSHAKE: "Clients need it to authenticate.",
    versions.SASL_AUTHENTICATE: "Clients need it to authenticate.",
    versions.GET_TELEMETRY_SUBSCRIPTIONS: "As in Apache Kafka.",
    versions.PUSH_TELEMETRY: "As in Apache Kafka.",
    own_keys.BROKER_METADATA: "It describes brokers as Metadata does, which every client may ask for.",
}
"""The APIs without a check, with the reason."""


def operations_of(key: int, resource: AclResource) -> Sequence[AclOperation]:
    """Return the operations on this type of resource that an API checks. The first operation is the usual one."""
    return _OPERATIONS[key, resource]


def code_of(key: int, resource: AclResource) -> ErrorCode:
    """Return the error code of a denied check."""
    return next((check.code for check in CHECKS[key] if check.resource == resource and check.code), _CODES[resource])


_OPERATIONS: dict[tuple[int, AclResource], tuple[AclOperation, ...]] = {}
for _key, _checks in CHECKS.items():
    for _check in _checks:
        _at = _key, _check.resource
        _OPERATIONS[_at] = (*_OPERATIONS.get(_at, ()), _check.operation)

GATE: Mapping[int, Check] = {key: checks[0] for key, checks in CHECKS.items() if checks[0].at_gate}
"""The APIs whose whole request is refused before their handler."""
