"""The settings of the audit log: keys, defaults and validation. Pure.

Keys are relative to `observer.audit-log.`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from broker_runtime.observers.audit_log.change_log import ChangeSettings
from broker_runtime.observers.audit_log.changes.change import ChangeLimits
from broker_runtime.observers.audit_log.clients import ClientRules
from broker_runtime.observers.audit_log.writer import WriterLimits


class Level(Enum):
    """The level of detail of an audit log. Each level includes those before it."""

    OFF = "off"
    CONNECTIONS = "connections"
    """Records connections, and requests that change what other clients see: topics, configurations, quotas, brokers."""
    ROLLUP = "rollup"
    """Also records sums of all other requests by client, API and topic."""
    FULL = "full"
    """Also records each other request by itself, instead of the sums."""


class AuditConfigError(ValueError):
    """Error for a setting that the audit log cannot use. The message says what to do."""


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """Settings of one audit log.

    If `rejects`, a full queue refuses requests instead of dropping events. An empty `spool_dir` lets the broker choose
    it. `excluded_topics` are names, or prefixes that end with `*`.
    """

    level: Level = Level.FULL
    rejects: bool = False
    spool_dir: str = ""
    spool_bytes: int = 256 * 1024 * 1024
    rollup_s: float = 10.0
    inventory_s: float = 600.0
    limits_s: float = 3600.0
    excluded_topics: tuple[str, ...] = ()
    clients: ClientRules = field(default_factory=ClientRules)
    writer: WriterLimits = field(default_factory=WriterLimits)
    changes: ChangeSettings = field(default_factory=ChangeSettings)


_HASH_KEY_BYTES: Final = (16, 64)
_FULL: Final = {"permit": False, "reject": True}


def _positive(key: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value <= 0:
        raise AuditConfigError(f"{key} must be a whole number above 0, not {text!r}")
    return value


def _seconds(key: str, text: str) -> float:
    return _positive(key, text) / 1000


def _one_of(choices: Mapping[str, Any]) -> Callable[[str, str], Any]:
    def parse(key: str, text: str) -> Any:
        if text not in choices:
            raise AuditConfigError(f"{key} must be one of {', '.join(choices)}, not {text!r}")
        return choices[text]

    return parse


def _names(_: str, text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _hash_key(key: str, text: str) -> bytes:
    value = text.encode()
    low, high = _HASH_KEY_BYTES
    if value and not low <= len(value) <= high:
        raise AuditConfigError(f"{key} must have {low} to {high} bytes, this one has {len(value)}")
    return value


def _text(_: str, text: str) -> str:
    return text


KEYS: Final[Mapping[str, tuple[Callable[[str, str], Any], str, str]]] = {
    "level": (
        _one_of({level.value: level for level in Level}),
        "full",
        "How much is recorded: `off`, `connections`, `rollup` or `full`.",
    ),
    "queue.full": (
        _one_of(_FULL),
        "permit",
        "What happens while the spool cannot be written and the queue is full: `permit` drops events and records a "
        "gap event; `reject` refuses requests that would be recorded.",
    ),
    "queue.bytes": (_positive, "1048576", "Bytes of events that may wait while the spool cannot be written."),
    "flush.ms": (
        _seconds,
        "100",
        "Longest time until an event is in the spool. It is then in the page cache, and a kill -9 does not lose it.",
    ),
    "spool.dir": (_text, "", "Folder of the spools; if empty, `audit` in the broker's first log directory."),
    "spool.bytes": (
        _positive,
        "268435456",
        "Bytes of all spools together; at the limit, if the spools are not landed, the queue fills.",
    ),
    "segment.ms": (_seconds, "60000", "Time after which a spool that has events is complete and can be landed."),
    "segment.bytes": (_positive, "16777216", "Bytes after which a spool is complete and can be landed."),
    "rollup.ms": (_seconds, "10000", "Interval of rows at level `rollup`."),
    "inventory.ms": (
        _seconds,
        "600000",
        "Time between two inventories of all partitions of this broker. In between, only partitions that are new, that "
        "are deleted, or whose leadership has changed are recorded.",
    ),
    "limits.ms": (
        _seconds,
        "3600000",
        "Time between two reports of all limits on connections. In between, only limits that change are recorded. A "
        "replay of a part of the log begins at a report, which it looks for in the two hours before.",
    ),
    "changes.rows": (
        _positive,
        "1000",
        "Rows of one request in the table change, such as one for each topic that it creates and for each of their "
        "configuration keys. Further resources of the request are counted, by error code.",
    ),
    "changes.chars": (
        _positive,
        "131072",
        "Characters of all texts of one request in the table change. Further resources are counted, too.",
    ),
    "changes.waiting.bytes": (
        _positive,
        "16777216",
        "Bytes of answers that wait until their error codes have been looked for, in slices of the event loop. Beyond "
        "them, changes are recorded without error codes.",
    ),
    "exclude.listeners": (_names, "", "Listeners whose clients are not recorded."),
    "exclude.principals": (_names, "", "Principals that are not recorded."),
    "exclude.topics": (_names, "", "Topics that are not recorded, or prefixes that end with `*`."),
    "audit.topic": (
        _text,
        "",
        "Topic to which `sluicegate audit publish` writes the events. It is not recorded either, because each "
        "recorded event would cause another one.",
    ),
    "hash.key": (
        _hash_key,
        "",
        "If set (16 to 64 bytes), client addresses and principals are recorded as a keyed hash (BLAKE2b).",
    ),
    "hash.key.file": (
        _text,
        "",
        "A file that has this key instead, for example one of a mounted Secret; the broker reads it each time that "
        "the audit log is configured.",
    ),
}
"""Parser, default as text and description of each key."""


def with_key_of_file(given: Mapping[str, str], read: Callable[[str], str]) -> Mapping[str, str]:
    """Return `given` with hash.key set from hash.key.file. Raises AuditConfigError, and errors of `read`."""
    file = given.get("hash.key.file")
    if not file:
        return given
    if given.get("hash.key"):
        raise AuditConfigError("set hash.key or hash.key.file, not both")
    key = read(file).rstrip("\n")
    if not key:
        raise AuditConfigError(f"hash.key.file {file} is empty: nothing would be hashed")
    return {**given, "hash.key": key}


def read_settings(given: Mapping[str, str]) -> AuditSettings:
    """Parse the settings of an audit log. Raises AuditConfigError, also for an unknown key."""
    unknown = sorted(given.keys() - KEYS.keys())
    if unknown:
        raise AuditConfigError(f"the audit log has no key {unknown[0]}; it has {', '.join(sorted(KEYS))}")
    value: dict[str, Any] = {key: parse(key, given.get(key, default)) for key, (parse, default, _) in KEYS.items()}
    if value["spool.bytes"] < 2 * value["segment.bytes"]:
        raise AuditConfigError(
            "spool.bytes must be at least twice segment.bytes: a spool can be landed only when it is complete"
        )
    return AuditSettings(
        level=value["level"],
        rejects=value["queue.full"],
        spool_dir=value["spool.dir"],
        spool_bytes=value["spool.bytes"],
        rollup_s=value["rollup.ms"],
        inventory_s=value["inventory.ms"],
        limits_s=value["limits.ms"],
        excluded_topics=(*value["exclude.topics"], *filter(None, [value["audit.topic"]])),
        clients=ClientRules(
            frozenset(value["exclude.listeners"]), frozenset(value["exclude.principals"]), value["hash.key"]
        ),
        writer=WriterLimits(value["flush.ms"], value["queue.bytes"], value["segment.ms"], value["segment.bytes"]),
        changes=ChangeSettings(
            ChangeLimits(value["changes.rows"], value["changes.chars"]), value["changes.waiting.bytes"]
        ),
    )
