"""Compares answers as flat paths: values that must differ are unified, and paths with other differences are returned.

Pure. A path is `step/field/key/field`. An entry of a list is named by its identifier (a topic's name, a partition's
number), so that the order of answers, which Kafka leaves open, does not count.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.support.processes.clients.wire_client import Plain

ABSENT = "(absent)"
ENTRY = "(an entry)"
NO_ID = "00000000-0000-0000-0000-000000000000"
IDENTIFIERS = (
    "key",
    "name",
    "topic",
    "api_key",
    "partition_index",
    "partition",
    "index",
    "node_id",
    "broker_id",
    "resource_name",
    "group_id",
    "entity_type",
)

NOT_COMPARED = {"throttle_time", "documentation"}
"""The throttle time of a quota, and texts that each project writes itself."""

MADE_ALIKE = {"cluster_id", "topic_id", "port", "producer_id", "leader_epoch"}
"""Only the presence of these is compared: nodes create their own IDs, ports and epochs."""


@dataclass(frozen=True, slots=True)
class Difference:
    path: str
    kafka: str
    ours: str

    def __str__(self) -> str:
        return f"{self.path}\n    kafka: {self.kafka}\n    ours:  {self.ours}"


@dataclass(frozen=True, slots=True)
class Near:
    """A measured value; two of them are equal if they differ by at most `within`."""

    value: float
    within: float

    def __str__(self) -> str:
        return f"{self.value:g} (+-{self.within:g})"


Value = str | Near


def differ(path: str, kafka: Value, ours: Value) -> bool:
    """Return whether values differ.

    Two messages are equal if ours contains every subject of Kafka's; the wording may differ.
    """
    if isinstance(kafka, Near) and isinstance(ours, Near):
        return abs(kafka.value - ours.value) > kafka.within
    if isinstance(kafka, Near) or isinstance(ours, Near):
        return True
    if path.endswith("_message") and kafka not in NO_TEXT and ours not in NO_TEXT:
        return not subjects(kafka) <= subjects(ours)
    return kafka != ours


NO_TEXT = (ABSENT, "None", "")
_SUBJECT = re.compile(r"\w+(?:[.:_-]\w+)+|\d{3,}")


def subjects(message: str) -> set[str]:
    """Return keys, addresses, names and numbers of a message, without the Java classes in Kafka's messages."""
    return {word for word in _SUBJECT.findall(message) if not word.startswith("org.apache.")}


def differences(kafka: Mapping[str, Plain], ours: Mapping[str, Plain]) -> list[Difference]:
    theirs, own = dict(flatten(kafka)), dict(flatten(ours))
    found: list[Difference] = []
    missing = "\0"
    for path in sorted(theirs.keys() | own.keys(), key=lambda path: path.split("/")):
        if path.startswith(missing):
            continue
        one, other = theirs.get(path, ABSENT), own.get(path, ABSENT)
        if ENTRY in (one, other) and ABSENT in (one, other):
            missing = path + "/"
        if differ(path, one, other):
            found.append(Difference(path, str(one), str(other)))
    return found


def flatten(value: Plain, path: str = "") -> Iterator[tuple[str, Value]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name not in NOT_COMPARED:
                yield from flatten(_alike(name, item), f"{path}/{name}" if path else name)
    elif isinstance(value, list):
        for name, item in zip(_names(value), value, strict=True):
            yield f"{path}/{name}", ENTRY
            yield from flatten(item, f"{path}/{name}")
    else:
        yield path, value if isinstance(value, str | Near) else repr(value)


def _alike(name: str, value: Plain) -> Plain:
    if name not in MADE_ALIKE or value is None or value == NO_ID:
        return value
    if isinstance(value, int):
        return "(some)" if value >= 0 else value
    return "(some)"


def _names(items: list[Plain]) -> list[str]:
    names: list[str] = []
    for position, item in enumerate(items):
        known = _identity(item) if isinstance(item, Mapping) else None
        name = str(position) if known is None else known
        while name in names:
            name += "+"
        names.append(name)
    return names


def _identity(item: Mapping[str, Plain]) -> str | None:
    if "entity" in item:
        return "&".join(sorted(f"{part['entity_type']}={part['entity_name']}" for part in item["entity"]))
    for name in IDENTIFIERS:
        if name in item:
            return "(null)" if item[name] is None else str(item[name])
    return None
