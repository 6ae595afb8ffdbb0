"""Topic configuration: the keys of a topic, their broker-level defaults and the typed result.

Pure. Names and defaults are Apache Kafka's; a topic key falls back to the broker key named in `BROKER_SYNONYMS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from broker_runtime.config.definition import (
    LONG_MAX,
    ConfigKey,
    Type,
    UpdateMode,
    Value,
    at_least,
    each_of,
    one_of,
    table,
)
from broker_runtime.config.unused import UNUSED_TOPIC_KEYS
from broker_runtime.errors import ConfigError

_COMPRESSIONS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_DAY_MS = 86_400_000


def _key(name: str, kind: Type, default: Value, doc: str, validator: object = None) -> ConfigKey:
    return ConfigKey(name, kind, default, doc, validator, UpdateMode.CLUSTER_WIDE)  # type: ignore[arg-type]


TOPIC_KEYS: Mapping[str, ConfigKey] = table(
    [
        _key(
            "cleanup.policy",
            Type.LIST,
            ("delete",),
            "delete drops old segments; compact asks for keyed records (there is no cleaner yet).",
            each_of("delete", "compact"),
        ),
        _key(
            "compression.type",
            Type.STRING,
            "producer",
            "Only producer is enforced: batches are stored as they come.",
            one_of(*_COMPRESSIONS),
        ),
        _key("segment.bytes", Type.INT, 1 << 30, "Size at which a segment is rolled, bytes.", at_least(14)),
        _key("segment.ms", Type.LONG, 7 * _DAY_MS, "Age at which a segment is rolled, ms.", at_least(1)),
        _key(
            "segment.index.bytes", Type.INT, 10 << 20, "Largest index size before the segment is rolled.", at_least(4)
        ),
        _key("index.interval.bytes", Type.INT, 4096, "Log bytes between two index entries.", at_least(0)),
        _key(
            "retention.ms", Type.LONG, 7 * _DAY_MS, "Age after which segments are deleted; -1 keeps them.", at_least(-1)
        ),
        _key(
            "retention.bytes",
            Type.LONG,
            -1,
            "Partition size above which old segments are deleted; -1: none.",
            at_least(-1),
        ),
        _key("max.message.bytes", Type.INT, 1_048_588, "Largest record batch accepted, bytes.", at_least(0)),
        _key(
            "message.timestamp.type",
            Type.STRING,
            "CreateTime",
            "CreateTime keeps the producer's timestamps, LogAppendTime sets the broker's.",
            one_of("CreateTime", "LogAppendTime"),
        ),
        _key(
            "message.timestamp.before.max.ms",
            Type.LONG,
            LONG_MAX,
            "How far a CreateTime timestamp may lie in the past, ms.",
            at_least(0),
        ),
        _key(
            "message.timestamp.after.max.ms",
            Type.LONG,
            3_600_000,
            "How far a CreateTime timestamp may lie in the future, ms.",
            at_least(0),
        ),
        _key(
            "flush.messages",
            Type.LONG,
            LONG_MAX,
            "fsync after this many records; by default the OS decides.",
            at_least(1),
        ),
        _key("flush.ms", Type.LONG, LONG_MAX, "fsync after this many ms; by default the OS decides.", at_least(0)),
        _key("file.delete.delay.ms", Type.LONG, 60_000, "Wait before a deleted segment's files go, ms.", at_least(0)),
        _key("min.insync.replicas", Type.INT, 1, "Replicas that must have an acks=all record.", at_least(1)),
        _key("delete.retention.ms", Type.LONG, _DAY_MS, "How long compaction keeps tombstones, ms.", at_least(0)),
        _key(
            "sluicegate.record.validation",
            Type.STRING,
            "header",
            "header: what a batch's header tells is checked; all: each record (its cost is in benchmarks/README.md). "
            "Those of compacted topics always are.",
            one_of("header", "all"),
        ),
        _key("unclean.leader.election.enable", Type.BOOLEAN, False, "Allow a leader that may miss records."),
    ]
)

BROKER_SYNONYMS: Mapping[str, str] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.type": "compression.type",
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms",
    "segment.index.bytes": "log.index.size.max.bytes",
    "index.interval.bytes": "log.index.interval.bytes",
    "retention.ms": "log.retention.ms",
    "retention.bytes": "log.retention.bytes",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.type": "log.message.timestamp.type",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "min.insync.replicas": "min.insync.replicas",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "sluicegate.record.validation": "sluicegate.record.validation",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""Topic key -> the broker key that holds its default."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The effective configuration of one topic, typed; defaults are Kafka's."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_type: str = "producer"
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = -1
    max_message_bytes: int = 1_048_588
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = 3_600_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    file_delete_delay_ms: int = 60_000
    min_insync_replicas: int = 1
    sluicegate_record_validation: str = "header"
    checks_records: bool = field(init=False, default=False)
    """Each record is looked at; not worked out for each batch."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "checks_records", self.compacted or self.sluicegate_record_validation == "all")

    @property
    def compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @classmethod
    def of(cls, overrides: Mapping[str, str], broker_values: Mapping[str, Value] | None = None) -> "TopicConfig":
        """The config of a topic with these dynamic `overrides` on a broker with these effective values.

        Raises ConfigError for an unknown key or a value that is not allowed.
        """
        values: dict[str, Value] = {}
        for name, synonym in BROKER_SYNONYMS.items():
            if broker_values is not None and synonym in broker_values:
                values[name] = broker_values[synonym]
        for name, text in overrides.items():
            values[name] = topic_key(name).parse(text)
        known = {name.replace(".", "_"): value for name, value in values.items()}
        return cls(**{name: cast("int", known[name]) for name in cls.__dataclass_fields__ if name in known})  # type: ignore[arg-type]


def topic_key(name: str) -> ConfigKey:
    key = TOPIC_KEYS.get(name) or UNUSED_TOPIC_KEYS.get(name)
    if key is None:
        raise ConfigError(f"Unknown topic config name: {name}")
    return key
