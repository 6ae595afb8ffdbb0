"""Topic configuration: the keys of a topic, the broker keys with their defaults, and the typed result.

Pure. Names and defaults are Apache Kafka's.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Self, TypeVar

from broker_runtime.config.declaring.allowed import at_least, between, each_of, one_of
from broker_runtime.config.declaring.declaration import Config
from broker_runtime.config.declaring.definition import (
    LONG_MAX,
    ConfigKey,
    Key,
    Type,
    UpdateMode,
    Validator,
    Value,
)
from broker_runtime.config.declaring.unused import unused_keys
from broker_runtime.errors import ConfigError

_COMPRESSIONS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_DAY_MS = 86_400_000
BOOLEAN, STRING, INT, LONG, LIST = Type.BOOLEAN, Type.STRING, Type.INT, Type.LONG, Type.LIST
T = TypeVar("T")


def _key(name: str, synonym: str, kind: Type, default: T, doc: str, validator: Validator | None = None) -> Key[T]:
    return Key(name, kind, default, doc, validator, UpdateMode.CLUSTER_WIDE, synonym=synonym)


class TopicConfig(Config):
    """The effective configuration of one topic, typed; defaults are Kafka's."""

    cleanup_policy: Key[tuple[str, ...]] = _key(
        "cleanup.policy",
        "log.cleanup.policy",
        LIST,
        ("delete",),
        "delete drops old segments; compact keeps the last record of each key.",
        each_of("delete", "compact"),
    )
    compression_type: Key[str] = _key(
        "compression.type",
        "compression.type",
        STRING,
        "producer",
        "Only producer has an effect: batches are stored as they arrive.",
        one_of(*_COMPRESSIONS),
    )
    segment_bytes: Key[int] = _key(
        "segment.bytes", "log.segment.bytes", INT, 1 << 30, "Size at which a segment is rolled, bytes.", at_least(14)
    )
    segment_ms: Key[int] = _key(
        "segment.ms", "log.roll.ms", LONG, 7 * _DAY_MS, "Age at which a segment is rolled, ms.", at_least(1)
    )
    segment_index_bytes: Key[int] = _key(
        "segment.index.bytes",
        "log.index.size.max.bytes",
        INT,
        10 << 20,
        "Largest index size before the segment is rolled.",
        at_least(4),
    )
    index_interval_bytes: Key[int] = _key(
        "index.interval.bytes",
        "log.index.interval.bytes",
        INT,
        4096,
        "Bytes of the log between two index entries.",
        at_least(0),
    )
    retention_ms: Key[int] = _key(
        "retention.ms",
        "log.retention.ms",
        LONG,
        7 * _DAY_MS,
        "Age after which segments are deleted; -1 keeps them.",
        at_least(-1),
    )
    retention_bytes: Key[int] = _key(
        "retention.bytes",
        "log.retention.bytes",
        LONG,
        -1,
        "Partition size above which old segments are deleted; -1 sets no limit.",
        at_least(-1),
    )
    max_message_bytes: Key[int] = _key(
        "max.message.bytes", "message.max.bytes", INT, 1_048_588, "Largest record batch accepted, bytes.", at_least(0)
    )
    message_timestamp_type: Key[str] = _key(
        "message.timestamp.type",
        "log.message.timestamp.type",
        STRING,
        "CreateTime",
        "CreateTime keeps the producer's timestamps, LogAppendTime sets the broker's.",
        one_of("CreateTime", "LogAppendTime"),
    )
    message_timestamp_before_max_ms: Key[int] = _key(
        "message.timestamp.before.max.ms",
        "log.message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        "How far a CreateTime timestamp may lie in the past, ms.",
        at_least(0),
    )
    message_timestamp_after_max_ms: Key[int] = _key(
        "message.timestamp.after.max.ms",
        "log.message.timestamp.after.max.ms",
        LONG,
        3_600_000,
        "How far a CreateTime timestamp may lie in the future, ms.",
        at_least(0),
    )
    flush_messages: Key[int] = _key(
        "flush.messages",
        "log.flush.interval.messages",
        LONG,
        LONG_MAX,
        "fsync after this many records; by default the OS decides.",
        at_least(1),
    )
    flush_ms: Key[int] = _key(
        "flush.ms",
        "log.flush.interval.ms",
        LONG,
        LONG_MAX,
        "fsync after this many ms; by default the OS decides.",
        at_least(0),
    )
    file_delete_delay_ms: Key[int] = _key(
        "file.delete.delay.ms",
        "log.segment.delete.delay.ms",
        LONG,
        60_000,
        "Wait before the files of a deleted segment are removed, ms.",
        at_least(0),
    )
    min_insync_replicas: Key[int] = _key(
        "min.insync.replicas",
        "min.insync.replicas",
        INT,
        1,
        "Replicas in sync that a partition must have to accept records with acks=all.",
        at_least(1),
    )
    delete_retention_ms: Key[int] = _key(
        "delete.retention.ms",
        "log.cleaner.delete.retention.ms",
        LONG,
        _DAY_MS,
        "How long compaction keeps tombstones after it has first read them, ms.",
        at_least(0),
    )
    min_cleanable_dirty_ratio: Key[float] = _key(
        "min.cleanable.dirty.ratio",
        "log.cleaner.min.cleanable.ratio",
        Type.DOUBLE,
        0.5,
        "A compacted log is cleaned when more than this share of its sealed segments has not been cleaned yet.",
        between(0, 1),
    )
    min_compaction_lag_ms: Key[int] = _key(
        "min.compaction.lag.ms",
        "log.cleaner.min.compaction.lag.ms",
        LONG,
        0,
        "How long each record stays before compaction may remove it, ms.",
        at_least(0),
    )
    max_compaction_lag_ms: Key[int] = _key(
        "max.compaction.lag.ms",
        "log.cleaner.max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        "A log with records that have waited for cleaning for so long is cleaned whatever their share of it; segments "
        "of compacted topics are also rolled at that age, ms.",
        at_least(1),
    )
    sluicegate_record_validation: Key[str] = _key(
        "sluicegate.record.validation",
        "sluicegate.record.validation",
        STRING,
        "header",
        "header: the broker checks the header of a batch, and that its bytes have room for the records that it "
        "counts; all: it checks each record (benchmarks/README.md has the cost). Records of compacted topics are "
        "always checked.",
        one_of("header", "all"),
    )
    unclean_leader_election_enable: Key[bool] = _key(
        "unclean.leader.election.enable",
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "Whether a replica that may miss records can become the leader.",
    )

    @property
    def compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def problem(self) -> str | None:
        """Return the fault of values that are allowed, but not together, in Kafka's words; None for valid values."""
        least, most = self.min_compaction_lag_ms, self.max_compaction_lag_ms
        if least <= most:
            return None
        return f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"

    @cached_property
    def segment_age_max_ms(self) -> int:
        """Return the age at which the active segment is rolled, in milliseconds.

        The active segment is never cleaned, so that of a compacted topic must not stay active for too long.
        """
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacted else self.segment_ms

    @cached_property
    def checks_records(self) -> bool:
        """Return whether each record is checked; computed once, not for each batch."""
        return self.compacted or self.sluicegate_record_validation == "all"

    @classmethod
    def of(cls, overrides: Mapping[str, str], broker_values: Mapping[str, Value] | None = None) -> Self:
        """Return the configuration of a topic with these dynamic `overrides` on a broker with these effective values.

        Raises ConfigError for an unknown key or a value that is not allowed.
        """
        values: dict[str, Value] = {}
        for name, synonym in BROKER_SYNONYMS.items():
            if broker_values is not None and synonym in broker_values:
                values[name] = broker_values[synonym]
        for name, text in overrides.items():
            values[name] = topic_key(name).parse(text)
        return cls.from_values(values)


TOPIC_KEYS: Mapping[str, ConfigKey] = TopicConfig.KEYS

BROKER_SYNONYMS: Mapping[str, str] = {name: key.synonym for name, key in TOPIC_KEYS.items() if key.synonym is not None}
"""The broker key with the default of each topic key, by topic key."""


def topic_key(name: str) -> ConfigKey:
    key = TOPIC_KEYS.get(name) or unused_keys("topic").get(name)
    if key is None:
        raise ConfigError(f"Unknown topic config name: {name}")
    return key
