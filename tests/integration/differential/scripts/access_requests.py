"""The requests that the suite of access control plays, with the ACLs of the guest."""

from tests.integration.differential.scripts.batches import Batch
from tests.integration.differential.scripts.records import produce_fields
from tests.integration.differential.scripts.topics import NOBODY, STRANGER, TIMEOUT_MS, new
from tests.support.processes.clients.wire_client import Plain

OWNER, GUEST = "127.0.0.1", "127.0.0.2"
ANONYMOUS = "User:ANONYMOUS"
TOPIC, GROUP, CLUSTER, TRANSACTION = 2, 3, 4, 5
THE_CLUSTER = "kafka-cluster"
LITERAL, PREFIXED, MATCH, ANY = 3, 4, 2, 1
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, ACTION = 2, 3, 4, 5, 6, 7, 8, 9
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 10, 11, 12
DENY, ALLOW = 2, 3
TRANSACTIONAL = 16
NOW_MS = 1_700_000_000_000
KNOWN, MISSING, TEAM = "known", "missing", "team"
Permission = tuple[int, str, int]
"""Type and name of a resource, and an operation."""


def acl(permission: Permission, *, host: str = GUEST, pattern: int = LITERAL, kind: int = ALLOW) -> Plain:
    resource, name, operation = permission
    return {
        "resource_type": resource,
        "resource_name": name,
        "resource_pattern_type": pattern,
        "principal": ANONYMOUS,
        "host": host,
        "operation": operation,
        "permission_type": kind,
    }


def any_acl(**wanted: Plain) -> dict[str, Plain]:
    every = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    return every | wanted


def list_offsets(*names: str) -> dict[str, Plain]:
    parts = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]
    return {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"name": name, "partitions": parts} for name in names],
    }


def _fetch(name: str, replica: int = -1) -> dict[str, Plain]:
    part = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1000,
    }
    return {
        "replica_id": replica,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1000,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": name, "partitions": [part]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }


def _offset_commit(*names: str) -> dict[str, Plain]:
    part = {"partition_index": 0, "committed_offset": 0, "committed_leader_epoch": -1, "committed_metadata": ""}
    return {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": name, "partitions": [part]} for name in names],
    }


def _offset_fetch(*names: str) -> dict[str, Plain]:
    topics = [{"name": name, "partition_indexes": [0]} for name in names] or None
    group = {"group_id": "g", "topics": topics, "member_id": None, "member_epoch": -1}
    return {"groups": [group], "require_stable": False}


def metadata(*names: str, create: bool = False) -> dict[str, Plain]:
    return {
        "topics": [{"topic_id": NOBODY, "name": name} for name in names] if names else None,
        "allow_auto_topic_creation": create,
        "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": True,
    }


def _config(kind: int, name: str, key: str) -> Plain:
    change = {"name": key, "config_operation": 0, "value": "60000"}
    return {"resource_type": kind, "resource_name": name, "configs": [change]}


RESOURCES = [
    _config(2, KNOWN, "retention.ms"),
    _config(2, MISSING, "retention.ms"),
    _config(4, "1", "max.connections"),
]
RESOURCES += [_config(4, "", "max.connections"), _config(32, "g", "consumer.session.timeout.ms")]

Ask = tuple[str, str, int, dict[str, Plain]]


def topics_asked() -> list[Ask]:
    by_epoch = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    both = [{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]} for name in (KNOWN, MISSING)]
    asked: list[Ask] = [
        ("known", "produce", 9, produce_fields(KNOWN, Batch(NOW_MS).encode())),
        ("known", "produce", 3, produce_fields(KNOWN, Batch(NOW_MS).encode())),
        ("missing", "produce", 9, produce_fields(MISSING, Batch(NOW_MS).encode())),
        ("in a transaction", "produce", 9, _in_transaction()),
        ("known", "fetch", 12, _fetch(KNOWN)),
        ("known", "fetch", 4, _fetch(KNOWN)),
        ("missing", "fetch", 12, _fetch(MISSING)),
        ("both", "list_offsets", 7, list_offsets(KNOWN, MISSING)),
        (
            "both",
            "offset_for_leader_epoch",
            4,
            {"replica_id": -1, "topics": [{"topic": name, "partitions": [by_epoch]} for name in (KNOWN, MISSING)]},
        ),
        ("both", "delete_records", 2, {"topics": both, "timeout": TIMEOUT_MS}),
        (
            "both",
            "describe_producers",
            0,
            {"topics": [{"name": name, "partition_indexes": [0]} for name in (KNOWN, MISSING)]},
        ),
        ("named", "describe_topic_partitions", 0, _by_pieces(KNOWN, MISSING)),
        ("all", "describe_topic_partitions", 0, _by_pieces()),
    ]
    for version in (1, 8, 9, 12, 13):
        asked += [
            ("all", "metadata", version, metadata()),
            ("both", "metadata", version, metadata(KNOWN, MISSING)),
        ]
    asked += [
        ("to create", "metadata", 12, metadata("created", create=True)),
        (
            "unknown id",
            "metadata",
            12,
            metadata() | {"topics": [{"topic_id": STRANGER, "name": None}]},
        ),
    ]
    return asked


def _in_transaction() -> dict[str, Plain]:
    batch = Batch(NOW_MS, attributes=TRANSACTIONAL, producer_id=1, producer_epoch=0, base_sequence=0)
    return produce_fields(KNOWN, batch.encode()) | {"transactional_id": "x"}


def _by_pieces(*names: str) -> dict[str, Plain]:
    return {"topics": [{"name": name} for name in names], "response_partition_limit": 100, "cursor": None}


def groups_asked() -> list[Ask]:
    join = {
        "group_id": "g",
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
        "reason": None,
    }
    member = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}
    sync = member | {"protocol_type": "consumer", "protocol_name": "range", "assignments": []}
    leave = {"group_id": "g", "member_id": "m", "members": [{"member_id": "m", "group_instance_id": None}]}
    new_member = {
        "group_id": "g2",
        "member_id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "member_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 10_000,
        "subscribed_topic_names": [KNOWN],
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [],
    }
    asked: list[Ask] = [
        ("group", "find_coordinator", 4, {"key_type": 0, "coordinator_keys": ["g"]}),
        ("group", "find_coordinator", 3, {"key_type": 0, "key": "g"}),
        ("transaction", "find_coordinator", 4, {"key_type": 1, "coordinator_keys": ["x"]}),
        ("both", "offset_commit", 8, _offset_commit(KNOWN, MISSING)),
        ("both", "offset_commit", 2, _offset_commit(KNOWN, MISSING) | {"retention_time_ms": -1}),
        ("both", "offset_fetch", 8, _offset_fetch(KNOWN, MISSING)),
        ("all", "offset_fetch", 8, _offset_fetch()),
        ("heartbeat", "heartbeat", 4, member),
        ("sync", "sync_group", 4, sync),
        ("leave", "leave_group", 4, leave),
        ("leave", "leave_group", 2, leave),
        ("groups", "describe_groups", 5, {"groups": ["g", "g3"], "include_authorized_operations": True}),
        ("groups", "describe_groups", 0, {"groups": ["g"]}),
        ("groups", "delete_groups", 2, {"groups_names": ["g3"]}),
        ("groups", "consumer_group_describe", 1, {"group_ids": ["g3"], "include_authorized_operations": True}),
        (
            "offsets",
            "offset_delete",
            0,
            {"group_id": "g", "topics": [{"name": KNOWN, "partitions": [{"partition_index": 0}]}]},
        ),
        ("all", "list_groups", 4, {"states_filter": []}),
        ("new member", "consumer_group_heartbeat", 1, new_member),
    ]
    asked += [("join", "join_group", version, join) for version in (0, 5, 9)]
    return asked


def cluster_asked() -> list[Ask]:
    binding = acl((TOPIC, "other", READ))
    grown = {"count": 1, "assignments": None}
    partition = {"partition_index": 0, "replicas": [1]}
    keys = [{**each, "configuration_keys": None} for each in RESOURCES]
    ip = {"entity": [{"entity_type": "ip", "entity_name": "10.0.0.1"}], "ops": []}
    return [
        ("acls", "describe_acls", 3, any_acl()),
        ("acls", "create_acls", 3, {"creations": [binding, binding]}),
        ("acls", "delete_acls", 3, {"filters": [any_acl(resource_name_filter="nothing")]}),
        ("made", "create_topics", 7, {"topics": [new("fresh")], "timeout": TIMEOUT_MS, "validate_only": True}),
        (
            "named",
            "delete_topics",
            6,
            {"topics": [{"name": name, "topic_id": NOBODY} for name in (MISSING,)], "timeout": TIMEOUT_MS},
        ),
        ("named", "delete_topics", 4, {"topic_names": [MISSING], "timeout": TIMEOUT_MS}),
        (
            "grown",
            "create_partitions",
            3,
            {"topics": [{"name": n, **grown} for n in (KNOWN, MISSING)], "timeout": TIMEOUT_MS, "validate_only": True},
        ),
        (
            "configs",
            "describe_configs",
            4,
            {"resources": keys, "include_synonyms": False, "include_documentation": False},
        ),
        ("configs", "incremental_alter_configs", 1, {"resources": RESOURCES, "validate_only": True}),
        (
            "configs",
            "alter_configs",
            2,
            {"resources": [r for r in RESOURCES if r["resource_name"]], "validate_only": True},
        ),
        ("quotas", "describe_client_quotas", 1, {"components": [], "strict": False}),
        ("quotas", "alter_client_quotas", 1, {"entries": [ip], "validate_only": True}),
        ("quorum", "describe_quorum", 2, _quorum()),
        (
            "leaders",
            "elect_leaders",
            2,
            {"election_type": 0, "topic_partitions": [{"topic": KNOWN, "partitions": [0]}], "timeout": TIMEOUT_MS},
        ),
        ("moved", "alter_partition_reassignments", 0, _moved(partition)),
        ("moving", "list_partition_reassignments", 0, {"timeout": TIMEOUT_MS, "topics": None}),
        ("broker", "unregister_broker", 0, {"broker_id": 77}),
        ("features", "update_features", 2, {"timeout": TIMEOUT_MS, "feature_updates": [], "validate_only": True}),
        ("cluster", "describe_cluster", 1, {"include_cluster_authorized_operations": True, "endpoint_type": 1}),
        ("config resources", "list_config_resources", 1, {"resource_types": [16]}),
        ("folders", "describe_log_dirs", 4, {"topics": []}),
        ("folders", "describe_log_dirs", 1, {"topics": []}),
        (
            "folders",
            "alter_replica_log_dirs",
            2,
            {"dirs": [{"path": "/nowhere", "topics": [{"name": KNOWN, "partitions": [0]}]}]},
        ),
        ("producer", "init_producer_id", 4, producer(None)),
        ("transaction", "init_producer_id", 4, producer("x")),
    ]


def producer(transactional_id: str | None) -> dict[str, Plain]:
    return {
        "transactional_id": transactional_id,
        "transaction_timeout": TIMEOUT_MS,
        "producer_id": -1,
        "producer_epoch": -1,
    }


def _quorum() -> dict[str, Plain]:
    return {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}


def _moved(partition: Plain) -> dict[str, Plain]:
    return {
        "timeout": TIMEOUT_MS,
        "allow_replication_factor_change": True,
        "topics": [{"name": KNOWN, "partitions": [partition]}],
    }
