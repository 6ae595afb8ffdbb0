"""Kafka's small files beside the log: offset checkpoints, partition.metadata, the clean-shutdown marker's name."""

from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

from broker_runtime.storage.disk.filesystem import FileSystem, read_file, replace_file
from kafka_bytes.uuids import decode_uuid, encode_uuid

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
FIRST_DIRTY = "cleaner-offset-checkpoint"
PARTITION_METADATA = "partition.metadata"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

Partition = tuple[str, int]


def read_offsets(fs: FileSystem, path: Path) -> dict[Partition, int]:
    """Return the offsets in a checkpoint file; empty for a missing file. Raises ValueError for another file."""
    if not fs.exists(path):
        return {}
    try:
        version, count, *lines = read_file(fs, path).decode().splitlines()
        found = {}
        for line in lines:
            topic, partition, offset = line.split(" ")
            found[topic, int(partition)] = int(offset)
        if version != "0" or int(count) != len(lines):
            raise ValueError(f"version {version} with {len(lines)} of {count} lines")
    except ValueError as error:
        raise ValueError(f"{path} is not an offset checkpoint of version 0: {error}") from None
    return found


def write_offsets(fs: FileSystem, path: Path, offsets: Mapping[Partition, int], *, sync: bool = True) -> None:
    lines = ["0", str(len(offsets)), *(f"{topic} {number} {at}" for (topic, number), at in sorted(offsets.items()))]
    replace_file(fs, path, ("\n".join(lines) + "\n").encode(), sync=sync)


def read_topic_id(fs: FileSystem, folder: Path) -> UUID:
    """Return the topic's id from the file partition.metadata of a partition's folder.

    Raises ValueError when the file is missing or damaged.
    """
    path = folder / PARTITION_METADATA
    if not fs.exists(path):
        raise ValueError(f"{path} is missing")
    text = read_file(fs, path).decode(errors="replace")
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise ValueError(f"{path} has no topic id of version 0")
    try:
        return decode_uuid(fields["topic_id"])
    except ValueError:
        raise ValueError(f"{path} has a damaged topic id") from None


def write_topic_id(fs: FileSystem, folder: Path, topic_id: UUID) -> None:
    """Write the topic's id to the file partition.metadata, without a sync.

    The log's first sync makes the content and the name of the file durable.
    """
    path = folder / PARTITION_METADATA
    replace_file(fs, path, f"version: 0\ntopic_id: {encode_uuid(topic_id)}\n".encode(), sync=False)
