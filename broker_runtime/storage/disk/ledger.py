"""Which topic each partition of a folder belongs to and where its log begins, beside Kafka's checkpoints.

Kafka's files name partitions by topic name only, and do not list segments or folders that must exist. With the ledger a
start detects three cases: an entry of an earlier topic of the same name, a lost folder, and a segment lost from the
beginning of a log. Kafka and earlier versions of this broker do not read it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from broker_runtime.storage.disk.checkpoint import Partition
from broker_runtime.storage.disk.filesystem import FileSystem, read_file, replace_file
from kafka_bytes.checksum import crc32c

FILE_NAME = ".sluicegate_partitions"


class Entry(NamedTuple):
    """The topic of a partition's folder and the begin of its log."""

    topic_id: UUID
    begin: int
    """Base offset of the first segment: missing offsets from this one on are lost."""


def read_ledger(fs: FileSystem, log_dir: Path) -> dict[Partition, Entry]:
    """Return the entries in the ledger file; empty for a missing file. Raises ValueError for a damaged file."""
    path = log_dir / FILE_NAME
    if not fs.exists(path):
        return {}
    head, _, body = read_file(fs, path).partition(b"\n")
    if head != _head(body):
        raise ValueError(f"{path} does not match its checksum")
    found = {}
    for line in body.decode().splitlines():
        topic, partition, topic_id, begin = line.split(" ")
        found[topic, int(partition)] = Entry(UUID(topic_id), int(begin))
    return found


def write_ledger(fs: FileSystem, log_dir: Path, entries: Mapping[Partition, Entry]) -> None:
    """Write the ledger file of a log directory, and sync it. Raises OSError."""
    lines = [f"{topic} {number} {entry.topic_id} {entry.begin}\n" for (topic, number), entry in sorted(entries.items())]
    body = "".join(lines).encode()
    replace_file(fs, log_dir / FILE_NAME, _head(body) + b"\n" + body)


def _head(body: bytes) -> bytes:
    return b"0 %08x" % crc32c(body)
