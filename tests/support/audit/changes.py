"""Requests that change something, and their rows of the table `change`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from audit_pipeline.spool.events import events_of
from audit_pipeline.spool.spool import read_spool
from broker_runtime.metadata.areas.configs import ConfigRecord
from broker_runtime.metadata.areas.quotas import ClientQuotaRecord
from broker_runtime.metadata.areas.topics import PartitionRecord, TopicRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.wire import versions
from kafka_bytes import own_keys
from tests.support.audit.audit import AuditBench

ORDERS = UUID(int=7)
EXISTS, UNKNOWN_TOPIC, DENIED, INVALID = 36, 3, 29, 42


def fill(image: MetadataImage) -> None:
    """Put the topic orders, two configurations and a quota into the metadata."""
    records = (
        TopicRecord("orders", ORDERS),
        PartitionRecord(ORDERS, 0, (1, 2), (1, 2), 1, 0, 0),
        PartitionRecord(ORDERS, 1, (2, 3), (2, 3), 2, 0, 0),
        ConfigRecord(2, "orders", "retention.ms", "1000"),
        ConfigRecord(4, "", "log.cleaner.threads", "1"),
        ClientQuotaRecord((("user", "alice"),), "producer_byte_rate", 1000.0),
    )
    for record in records:
        image.apply(record, image.next_offset)


def told(bench: AuditBench, folder: Path, table: str = "change") -> list[dict[str, Any]]:
    """Return the events of a table that the bench has recorded so far."""
    bench.settle()
    return [event for path in sorted(folder.glob("*.spool")) for name, event in events_in(path) if name == table]


def events_in(spool: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return all events of a spool with their tables."""
    content = read_spool(spool.read_bytes())
    return [event for block in content.blocks for event in events_of(content.header, block)]


def short(event: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the fields of a row that say what changed, and how it ended."""
    names = ("resource_type", "resource_name", "key", "operation", "old_value", "new_value", "error_code")
    return tuple(event[name] for name in names)


def topic(name: str, **configs: str) -> dict[str, Any]:
    """Return a topic of a CreateTopics request."""
    settings = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return {"name": name, "num_partitions": 3, "replication_factor": -1, "assignments": [], "configs": settings}


def answered(*codes: tuple[int, str, int]) -> dict[str, Any]:
    """Return an answer to (Incremental)AlterConfigs: resource type, name and error code of each resource."""
    return {
        "responses": [
            {"error_code": code, "error_message": None, "resource_type": kind, "resource_name": name}
            for kind, name, code in codes
        ]
    }


def incremental(kind: int, name: str, *changes: tuple[str, int, str | None]) -> dict[str, Any]:
    """Return a request of IncrementalAlterConfigs for one resource."""
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    return {"resources": [{"resource_type": kind, "resource_name": name, "configs": configs}], "validate_only": False}


def many_topics(count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a CreateTopics request and its answer, in which each tenth topic exists."""
    names = [f"topic-{number}" for number in range(count)]
    result: dict[str, Any] = {"topic_id": None, "error_message": None, "configs": []}
    result |= {"num_partitions": 1, "replication_factor": 1}
    codes = [EXISTS if number % 10 == 9 else 0 for number in range(count)]
    results = [{"name": name, "error_code": code, **result} for name, code in zip(names, codes, strict=True)]
    return {"topics": [topic(name) for name in names], "timeout": 1, "validate_only": False}, {"topics": results}


def _one(name: str, code: int, **more: Any) -> dict[str, Any]:
    return {name: more.pop("value"), "error_code": code, "error_message": None, **more}


CASES: dict[str, tuple[int, int, dict[str, Any], dict[str, Any], list[tuple[Any, ...]]]] = {
    "deleted topics by id": (
        versions.DELETE_TOPICS,
        6,
        {"topics": [{"name": None, "topic_id": ORDERS}, {"name": "none", "topic_id": None}], "timeout": 1},
        {
            "responses": [
                {"name": "orders", "topic_id": ORDERS, "error_code": 0, "error_message": None},
                {"name": "none", "topic_id": None, "error_code": UNKNOWN_TOPIC, "error_message": None},
            ]
        },
        [
            ("topic", "orders", None, "delete", "partitions=2", None, 0),
            ("topic", "none", None, "delete", None, None, UNKNOWN_TOPIC),
        ],
    ),
    "deleted topics by name": (
        versions.DELETE_TOPICS,
        5,
        {"topic_names": ["orders"], "timeout": 1},
        {"responses": [_one("name", DENIED, value="orders")]},
        [("topic", "orders", None, "delete", "partitions=2", None, DENIED)],
    ),
    "more partitions": (
        versions.CREATE_PARTITIONS,
        3,
        {"topics": [{"name": "orders", "count": 5, "assignments": None}], "timeout": 1, "validate_only": False},
        {"results": [_one("name", 0, value="orders")]},
        [("topic", "orders", "partitions", "set", "2", "5", 0)],
    ),
    "deleted records": (
        versions.DELETE_RECORDS,
        2,
        {"topics": [{"name": "orders", "partitions": [{"partition_index": 1, "offset": 9}]}], "timeout": 1},
        {
            "topics": [
                {"name": "orders", "partitions": [{"partition_index": 1, "low_watermark": 9, "error_code": 1}]},
            ]
        },
        [("partition", "orders-1", "records", "delete", None, "below 9", 1)],
    ),
    "deleted records of several topics": (
        versions.DELETE_RECORDS,
        2,
        {
            "topics": [
                {"name": name, "partitions": [{"partition_index": index, "offset": 5} for index in (0, 1)]}
                for name in ("a", "b")
            ],
            "timeout": 1,
        },
        {
            "topics": [
                {
                    "name": name,
                    "partitions": [
                        {"partition_index": index, "low_watermark": 5, "error_code": code}
                        for index, code in ((1, codes[1]), (0, codes[0]))
                    ],
                }
                for name, codes in (("b", (0, 1)), ("a", (6, 0)))
            ]
        },
        [
            ("partition", "a-0", "records", "delete", None, "below 5", 6),
            ("partition", "a-1", "records", "delete", None, "below 5", 0),
            ("partition", "b-0", "records", "delete", None, "below 5", 0),
            ("partition", "b-1", "records", "delete", None, "below 5", 1),
        ],
    ),
    "created ACLs": (
        versions.CREATE_ACLS,
        3,
        {
            "creations": [
                {"resource_type": 2, "resource_name": "orders", "resource_pattern_type": 3, "principal": "User:alice"}
                | {"host": "*", "operation": 3, "permission_type": 3},
                {"resource_type": 4, "resource_name": "kafka-cluster", "resource_pattern_type": 3}
                | {"principal": "User:bob", "host": "10.0.0.1", "operation": 2, "permission_type": 2},
            ]
        },
        {"results": [{"error_code": 0, "error_message": None}, {"error_code": INVALID, "error_message": "no"}]},
        [
            ("acl", "TOPIC:LITERAL:orders", "User:alice", "create", None, "ALLOW READ from any host", 0),
            ("acl", "CLUSTER:LITERAL:kafka-cluster", "User:bob", "create", None, "DENY ALL from 10.0.0.1", INVALID),
        ],
    ),
    "deleted ACLs": (
        versions.DELETE_ACLS,
        3,
        {
            "filters": [
                {"resource_type_filter": 2, "resource_name_filter": None, "pattern_type_filter": 1}
                | {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1},
            ]
        },
        {"filter_results": [{"error_code": 0, "error_message": None, "matching_acls": []}]},
        [("acl", "TOPIC:ANY:any name", "any principal", "delete", "ANY ANY from any host", None, 0)],
    ),
    "elected leaders": (
        versions.ELECT_LEADERS,
        2,
        {"election_type": 1, "topic_partitions": [{"topic": "orders", "partitions": [0]}], "timeout": 1},
        {
            "error_code": 0,
            "replica_election_results": [
                {"topic": "orders", "partition_result": [_one("partition_id", 84, value=0)]},
            ],
        },
        [("partition", "orders-0", "leader", "elect", None, "unclean", 84)],
    ),
    "elected leaders of all partitions": (
        versions.ELECT_LEADERS,
        2,
        {"election_type": 0, "topic_partitions": None, "timeout": 1},
        {
            "error_code": 0,
            "replica_election_results": [
                {"topic": "a", "partition_result": [_one("partition_id", code, value=code) for code in (0, 84, 84)]},
            ],
        },
        [
            ("cluster", None, "leaders", "elect", None, "preferred", 0),
            ("cluster", None, None, "several", None, None, 0),
            ("cluster", None, None, "several", None, None, 84),
        ],
    ),
    "reassigned partitions": (
        versions.ALTER_PARTITION_REASSIGNMENTS,
        0,
        {
            "timeout": 1,
            "topics": [
                {
                    "name": "orders",
                    "partitions": [
                        {"partition_index": 0, "replicas": [3, 4]},
                        {"partition_index": 1, "replicas": None},
                    ],
                }
            ],
        },
        {
            "error_code": 0,
            "error_message": None,
            "responses": [
                {
                    "name": "orders",
                    "partitions": [_one("partition_index", 0, value=0), _one("partition_index", 85, value=1)],
                }
            ],
        },
        [
            ("partition", "orders-0", "replicas", "set", "1,2", "3,4", 0),
            ("partition", "orders-1", "replicas", "cancel", "2,3", None, 85),
        ],
    ),
    "client quotas": (
        versions.ALTER_CLIENT_QUOTAS,
        1,
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "alice"}],
                    "ops": [{"key": "producer_byte_rate", "value": 2000.5, "remove": False}],
                },
                {
                    "entity": [
                        {"entity_type": "user", "entity_name": None},
                        {"entity_type": "client-id", "entity_name": "x"},
                    ],
                    "ops": [{"key": "consumer_byte_rate", "value": 0.0, "remove": True}],
                },
            ],
            "validate_only": False,
        },
        {
            "entries": [
                {
                    "error_code": INVALID,
                    "error_message": None,
                    "entity": [
                        {"entity_type": "user", "entity_name": None},
                        {"entity_type": "client-id", "entity_name": "x"},
                    ],
                },
                {
                    "error_code": 0,
                    "error_message": None,
                    "entity": [{"entity_type": "user", "entity_name": "alice"}],
                },
            ]
        },
        [
            ("client quota", "user=alice", "producer_byte_rate", "set", "1000", "2000.5", 0),
            ("client quota", "client-id=x, user=<default>", "consumer_byte_rate", "delete", None, None, INVALID),
        ],
    ),
    "features": (
        versions.UPDATE_FEATURES,
        2,
        {
            "timeout": 1,
            "feature_updates": [{"feature": "group.version", "max_version_level": 1, "upgrade_type": 1}],
            "validate_only": False,
        },
        {"error_code": 95, "error_message": "no"},
        [("feature", "group.version", "level", "set", None, "1", 95)],
    ),
    "unregistered broker": (
        versions.UNREGISTER_BROKER,
        0,
        {"broker_id": 9},
        {"error_code": 102, "error_message": "no"},
        [("broker", "9", None, "unregister", None, None, 102)],
    ),
    "folders of logs": (
        versions.ALTER_REPLICA_LOG_DIRS,
        2,
        {"dirs": [{"path": "/disk2", "topics": [{"name": "orders", "partitions": [1]}]}]},
        {"results": [{"topic_name": "orders", "partitions": [{"partition_index": 1, "error_code": 57}]}]},
        [("partition", "orders-1", "log dir", "set", None, "/disk2", 57)],
    ),
    "accepted loss": (
        own_keys.ACCEPT_LOG_LOSS,
        0,
        {"topic": "orders", "partition": 1, "first_offset": 4, "next_offset": 10},
        {"error_code": 0, "error_message": None},
        [("partition", "orders-1", "records", "accept loss", "offsets 4 to 9", None, 0)],
    ),
}
