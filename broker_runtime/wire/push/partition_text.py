"""Partitions as texts, as Kafka 0.7 named them: broker id and partition, with a hyphen between them. Pure."""

import re

from broker_runtime.errors import ProtocolError

_TEXT = re.compile(r"(?:[0-9]{1,10}-)?([0-9]{1,10})", re.ASCII)
_PARTITION_MAX = 0x7FFFFFFF


def partition_text(leader: int, partition: int) -> str:
    """Return the text, with the id of the broker to read from; without it while there is no leader."""
    return f"{leader}-{partition}" if leader >= 0 else str(partition)


def partition_number(text: str) -> int:
    """Return the partition of the text, whatever broker it names: leaders change. Raises ProtocolError."""
    found = _TEXT.fullmatch(text)
    number = -1 if found is None else int(found[1])
    if not 0 <= number <= _PARTITION_MAX:
        raise ProtocolError("malformed", f"{text!r} does not name a partition")
    return number
