"""Partitions as texts, as Kafka 0.7 named them: broker id and partition, with a hyphen between them. Pure."""

import re

from kafka_bytes.errors import FormatError

NO_LEADER = -1
_TEXT = re.compile(r"(?:([0-9]{1,10})-)?([0-9]{1,10})", re.ASCII)
_PARTITION_MAX = 0x7FFFFFFF


def partition_text(leader: int, partition: int) -> str:
    """Return the text of a partition: the id of its leader, and its number.

    The id is left out while there is no leader.
    """
    return f"{leader}-{partition}" if leader >= 0 else str(partition)


def read_partition(text: str) -> tuple[int, int]:
    """Return the leader that a partition's text names, or NO_LEADER, and the partition. Raises FormatError."""
    found = _TEXT.fullmatch(text)
    if found is None or int(found[2]) > _PARTITION_MAX:
        raise FormatError(f"{text[:100]!r} does not name a partition")
    return NO_LEADER if found[1] is None else int(found[1]), int(found[2])
