"""The Kafka APIs, the versions of them that Sluicegate reads and writes, and their first flexible versions.

Pure data (KIP-482 for flexible versions). `apis.table` decides what a node serves; this is only the format.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_bytes.own_keys import (
    ACCEPT_LOG_LOSS,
    BROKER_METADATA,
    CONNECTION_SHARES,
    DESCRIBE_LOG_DAMAGE,
    REPLICA_RANGE,
)

PRODUCE = 0
FETCH = 1
LIST_OFFSETS = 2
METADATA = 3
OFFSET_COMMIT = 8
OFFSET_FETCH = 9
FIND_COORDINATOR = 10
JOIN_GROUP = 11
HEARTBEAT = 12
LEAVE_GROUP = 13
SYNC_GROUP = 14
DESCRIBE_GROUPS = 15
LIST_GROUPS = 16
SASL_HANDSHAKE = 17
API_VERSIONS = 18
CREATE_TOPICS = 19
DELETE_TOPICS = 20
DELETE_RECORDS = 21
INIT_PRODUCER_ID = 22
OFFSET_FOR_LEADER_EPOCH = 23
ADD_PARTITIONS_TO_TXN = 24
ADD_OFFSETS_TO_TXN = 25
END_TXN = 26
WRITE_TXN_MARKERS = 27
TXN_OFFSET_COMMIT = 28
DESCRIBE_ACLS = 29
CREATE_ACLS = 30
DELETE_ACLS = 31
DESCRIBE_CONFIGS = 32
ALTER_CONFIGS = 33
ALTER_REPLICA_LOG_DIRS = 34
DESCRIBE_LOG_DIRS = 35
SASL_AUTHENTICATE = 36
CREATE_PARTITIONS = 37
DELETE_GROUPS = 42
ELECT_LEADERS = 43
INCREMENTAL_ALTER_CONFIGS = 44
ALTER_PARTITION_REASSIGNMENTS = 45
LIST_PARTITION_REASSIGNMENTS = 46
OFFSET_DELETE = 47
DESCRIBE_CLIENT_QUOTAS = 48
ALTER_CLIENT_QUOTAS = 49
DESCRIBE_USER_SCRAM_CREDENTIALS = 50
ALTER_USER_SCRAM_CREDENTIALS = 51
DESCRIBE_QUORUM = 55
ALTER_PARTITION = 56
UPDATE_FEATURES = 57
ENVELOPE = 58
FETCH_SNAPSHOT = 59
DESCRIBE_CLUSTER = 60
DESCRIBE_PRODUCERS = 61
BROKER_REGISTRATION = 62
BROKER_HEARTBEAT = 63
UNREGISTER_BROKER = 64
DESCRIBE_TRANSACTIONS = 65
LIST_TRANSACTIONS = 66
ALLOCATE_PRODUCER_IDS = 67
CONSUMER_GROUP_HEARTBEAT = 68
CONSUMER_GROUP_DESCRIBE = 69
GET_TELEMETRY_SUBSCRIPTIONS = 71
PUSH_TELEMETRY = 72
LIST_CONFIG_RESOURCES = 74
DESCRIBE_TOPIC_PARTITIONS = 75

OWN_KEYS_FROM = 30_000
"""The first API key of Sluicegate's own APIs. Kafka numbers its keys from 0 and has not reached 100.

ApiVersions, which is Kafka's, does not list keys from here on.
"""


FORWARDED = frozenset(
    {
        CREATE_TOPICS,
        DELETE_TOPICS,
        CREATE_ACLS,
        DELETE_ACLS,
        ALTER_CONFIGS,
        CREATE_PARTITIONS,
        ELECT_LEADERS,
        INCREMENTAL_ALTER_CONFIGS,
        ALTER_PARTITION_REASSIGNMENTS,
        LIST_PARTITION_REASSIGNMENTS,
        ALTER_CLIENT_QUOTAS,
        DESCRIBE_QUORUM,
        UPDATE_FEATURES,
        UNREGISTER_BROKER,
        ALTER_USER_SCRAM_CREDENTIALS,
    }
)
"""APIs whose requests brokers forward to the active controller."""


@dataclass(frozen=True, slots=True)
class ApiFormat:
    """The format of an API's messages.

    `module` is kio's name of the message; `flexible_from` is the first version with tagged fields. OffsetDelete and
    Sluicegate's own messages do not have tagged fields yet.
    """

    module: str
    flexible_from: int


FORMATS: Mapping[int, ApiFormat] = {
    PRODUCE: ApiFormat("produce", 9),
    FETCH: ApiFormat("fetch", 12),
    LIST_OFFSETS: ApiFormat("list_offsets", 6),
    METADATA: ApiFormat("metadata", 9),
    OFFSET_COMMIT: ApiFormat("offset_commit", 8),
    OFFSET_FETCH: ApiFormat("offset_fetch", 6),
    FIND_COORDINATOR: ApiFormat("find_coordinator", 3),
    JOIN_GROUP: ApiFormat("join_group", 6),
    HEARTBEAT: ApiFormat("heartbeat", 4),
    LEAVE_GROUP: ApiFormat("leave_group", 4),
    SYNC_GROUP: ApiFormat("sync_group", 4),
    DESCRIBE_GROUPS: ApiFormat("describe_groups", 5),
    LIST_GROUPS: ApiFormat("list_groups", 3),
    DELETE_GROUPS: ApiFormat("delete_groups", 2),
    OFFSET_DELETE: ApiFormat("offset_delete", 1),
    CONSUMER_GROUP_HEARTBEAT: ApiFormat("consumer_group_heartbeat", 0),
    CONSUMER_GROUP_DESCRIBE: ApiFormat("consumer_group_describe", 0),
    SASL_HANDSHAKE: ApiFormat("sasl_handshake", 2),
    SASL_AUTHENTICATE: ApiFormat("sasl_authenticate", 2),
    API_VERSIONS: ApiFormat("api_versions", 3),
    CREATE_TOPICS: ApiFormat("create_topics", 5),
    DELETE_TOPICS: ApiFormat("delete_topics", 4),
    DELETE_RECORDS: ApiFormat("delete_records", 2),
    INIT_PRODUCER_ID: ApiFormat("init_producer_id", 2),
    OFFSET_FOR_LEADER_EPOCH: ApiFormat("offset_for_leader_epoch", 4),
    ADD_PARTITIONS_TO_TXN: ApiFormat("add_partitions_to_txn", 3),
    ADD_OFFSETS_TO_TXN: ApiFormat("add_offsets_to_txn", 3),
    END_TXN: ApiFormat("end_txn", 3),
    WRITE_TXN_MARKERS: ApiFormat("write_txn_markers", 1),
    DESCRIBE_TRANSACTIONS: ApiFormat("describe_transactions", 0),
    LIST_TRANSACTIONS: ApiFormat("list_transactions", 0),
    TXN_OFFSET_COMMIT: ApiFormat("txn_offset_commit", 3),
    DESCRIBE_ACLS: ApiFormat("describe_acls", 2),
    CREATE_ACLS: ApiFormat("create_acls", 2),
    DELETE_ACLS: ApiFormat("delete_acls", 2),
    DESCRIBE_CONFIGS: ApiFormat("describe_configs", 4),
    ALTER_CONFIGS: ApiFormat("alter_configs", 2),
    DESCRIBE_LOG_DIRS: ApiFormat("describe_log_dirs", 2),
    CREATE_PARTITIONS: ApiFormat("create_partitions", 2),
    ELECT_LEADERS: ApiFormat("elect_leaders", 2),
    INCREMENTAL_ALTER_CONFIGS: ApiFormat("incremental_alter_configs", 1),
    ALTER_PARTITION_REASSIGNMENTS: ApiFormat("alter_partition_reassignments", 0),
    LIST_PARTITION_REASSIGNMENTS: ApiFormat("list_partition_reassignments", 0),
    DESCRIBE_CLIENT_QUOTAS: ApiFormat("describe_client_quotas", 1),
    ALTER_CLIENT_QUOTAS: ApiFormat("alter_client_quotas", 1),
    DESCRIBE_USER_SCRAM_CREDENTIALS: ApiFormat("describe_user_scram_credentials", 0),
    ALTER_USER_SCRAM_CREDENTIALS: ApiFormat("alter_user_scram_credentials", 0),
    DESCRIBE_QUORUM: ApiFormat("describe_quorum", 0),
    ALTER_PARTITION: ApiFormat("alter_partition", 0),
    FETCH_SNAPSHOT: ApiFormat("fetch_snapshot", 0),
    DESCRIBE_CLUSTER: ApiFormat("describe_cluster", 0),
    BROKER_REGISTRATION: ApiFormat("broker_registration", 0),
    BROKER_HEARTBEAT: ApiFormat("broker_heartbeat", 0),
    UNREGISTER_BROKER: ApiFormat("unregister_broker", 0),
    ALLOCATE_PRODUCER_IDS: ApiFormat("allocate_producer_ids", 0),
    ALTER_REPLICA_LOG_DIRS: ApiFormat("alter_replica_log_dirs", 2),
    UPDATE_FEATURES: ApiFormat("update_features", 0),
    ENVELOPE: ApiFormat("envelope", 0),
    DESCRIBE_PRODUCERS: ApiFormat("describe_producers", 0),
    GET_TELEMETRY_SUBSCRIPTIONS: ApiFormat("get_telemetry_subscriptions", 0),
    PUSH_TELEMETRY: ApiFormat("push_telemetry", 0),
    LIST_CONFIG_RESOURCES: ApiFormat("list_config_resources", 0),
    DESCRIBE_TOPIC_PARTITIONS: ApiFormat("describe_topic_partitions", 0),
    BROKER_METADATA: ApiFormat("broker_metadata", 1),
    REPLICA_RANGE: ApiFormat("replica_range", 1),
    DESCRIBE_LOG_DAMAGE: ApiFormat("describe_log_damage", 1),
    ACCEPT_LOG_LOSS: ApiFormat("accept_log_loss", 1),
    CONNECTION_SHARES: ApiFormat("connection_shares", 1),
}


def api_keys() -> Mapping[str, int]:
    """Return the keys of all APIs by Kafka's names, such as OffsetCommit."""
    return {"".join(part.title() for part in form.module.split("_")): key for key, form in FORMATS.items()}


OWN_MESSAGES: Mapping[tuple[int, int, str], str] = {
    (BROKER_METADATA, 0, "Request"): "kafka_bytes.messages.broker_metadata",
    (BROKER_METADATA, 0, "Response"): "kafka_bytes.messages.broker_metadata",
    (REPLICA_RANGE, 0, "Request"): "kafka_bytes.messages.log_damage",
    (REPLICA_RANGE, 0, "Response"): "kafka_bytes.messages.log_damage",
    (DESCRIBE_LOG_DAMAGE, 0, "Request"): "kafka_bytes.messages.log_damage",
    (DESCRIBE_LOG_DAMAGE, 0, "Response"): "kafka_bytes.messages.log_damage",
    (ACCEPT_LOG_LOSS, 0, "Request"): "kafka_bytes.messages.log_damage",
    (ACCEPT_LOG_LOSS, 0, "Response"): "kafka_bytes.messages.log_damage",
    (CONNECTION_SHARES, 0, "Request"): "kafka_bytes.messages.connection_shares",
    (CONNECTION_SHARES, 0, "Response"): "kafka_bytes.messages.connection_shares",
    (BROKER_REGISTRATION, 4, "Request"): "broker_runtime.wire.broker_registration",
}
"""Modules of messages that are not kio's or have fields beyond kio's, by API key, version and direction."""
