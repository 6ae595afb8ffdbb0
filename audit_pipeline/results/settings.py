"""The settings of a build: prices, objectives (SLOs), mirrors, and limits of connection storms. Pure.

Each is a JSON file; the `read_*` functions take its text and raise BadUseError with the problem and its place.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from audit_pipeline.errors import BadUseError

RESOURCES: Final = {
    "ingress": ("ingress_per_gib", 2**30),
    "egress": ("egress_per_gib", 2**30),
    "requests": ("requests_per_million", 1_000_000),
    "storage": ("storage_per_gib_month", 2**30 * 730),
    "partitions": ("partition_per_hour", 1),
}
"""The price key and the number of priced units of each resource.

Units are bytes, requests, byte-hours and partition-hours. A month has 730 hours.
"""

WINDOW_DAYS: Final = 30
"""Default window of an objective in days."""

APIS: Final = (
    "AcceptLogLoss", "AddOffsetsToTxn", "AddPartitionsToTxn", "AlterClientQuotas", "AlterConfigs",
    "AlterPartitionReassignments", "AlterReplicaLogDirs", "AlterUserScramCredentials", "ApiVersions",
    "BrokerMetadata", "ClusterMetadata", "ConsumerGroupDescribe", "ConsumerGroupHeartbeat", "CreateAcls",
    "CreatePartitions", "CreateTopics", "DeleteAcls", "DeleteGroups", "DeleteRecords", "DeleteTopics",
    "DescribeAcls", "DescribeClientQuotas", "DescribeCluster", "DescribeConfigs", "DescribeGroups",
    "DescribeLogDamage", "DescribeLogDirs", "DescribeProducers", "DescribeQuorum", "DescribeTopicPartitions",
    "DescribeTransactions", "DescribeUserScramCredentials", "ElectLeaders", "EndTxn", "Fetch", "FindCoordinator",
    "GetTelemetrySubscriptions", "Heartbeat", "IncrementalAlterConfigs", "InitProducerId", "JoinGroup",
    "LeaveGroup", "ListConfigResources", "ListGroups", "ListOffsets", "ListPartitionReassignments",
    "ListTransactions", "Metadata", "OffsetCommit", "OffsetDelete", "OffsetFetch", "OffsetForLeaderEpoch", "Ping",
    "Produce", "PushTelemetry", "RegisterConsumer", "ReplicaRange", "SaslAuthenticate", "SaslHandshake",
    "StartFetcher", "StopFetcher", "SyncGroup", "TxnOffsetCommit", "UnregisterBroker", "UpdateFeatures",
    "WriteTxnMarkers",
)  # fmt: skip
"""Kafka's names of the APIs that brokers serve, and this project's names of its own APIs, as in events."""

OBJECTIVES_MAX: Final = 50
MIRRORS_MAX: Final = 20
MIRROR_TOPICS_MAX: Final = 100
"""Maximum number of topics of a mirror.

Each is a part of one query; the resource AuditPipeline has the same bounds.
"""


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of resources: `price` of each resource in `currency`, for the number of units in RESOURCES."""

    currency: str
    price: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Objective:
    """An objective: a share `target` of the requests must be answered without error within `latency_ms`.

    It holds over `window_days`. `cluster_id`, `topic` and `principal` are None if all count.
    """

    name: str
    api: str
    latency_ms: float
    target: float
    window_days: int = WINDOW_DAYS
    cluster_id: str | None = None
    topic: str | None = None
    principal: str | None = None


@dataclass(frozen=True, slots=True)
class Mirror:
    """A mirror: topics of one cluster are copied to another, where their names begin with `prefix`.

    `topics` are names, or prefixes of names followed by a star; none means all. Names of the source that begin with an
    underscore never count.
    """

    name: str
    source_cluster: str
    mirror_cluster: str
    prefix: str = ""
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StormLimits:
    """The limits of a connection storm: numbers within at most ten consecutive seconds of a listener.

    Reaching one of the two is enough.
    """

    connections: int = 200
    """Number of accepted and refused connections together."""
    held: int = 20
    """Number of connections that a limit delayed or refused."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the results: everything that results depend on except events."""

    prices: Prices | None = None
    objectives: tuple[Objective, ...] = ()
    mirrors: tuple[Mirror, ...] = ()
    storms: StormLimits = StormLimits()
    what_if: str | None = None
    """Limits to try on connections, as JSON: see `what_if.limits`."""


def read_prices(text: str) -> Prices:
    """Parse the prices {"currency": "EUR", "ingress_per_gib": 0.02, ...}. A missing resource costs nothing."""
    read = _object(_json(text, "prices"), "prices")
    keys = {key: resource for resource, (key, _) in RESOURCES.items()}
    _only(read, {"currency", *keys}, "prices")
    currency = _text(read, "currency", "prices")
    price = {resource: _number(read, key, "prices", 0.0) for key, resource in keys.items()}
    return Prices(currency, price)


def read_objectives(text: str) -> tuple[Objective, ...]:
    """Parse {"objectives": [{"name": "orders", "api": "Produce", "latency_ms": 50, "target": 0.999, ...}]}."""
    found = []
    for number, each in enumerate(_list(_json(text, "objectives"), "objectives", OBJECTIVES_MAX)):
        where = f"objectives[{number}]"
        read = _object(each, where)
        _only(read, {field.name for field in fields(Objective)}, where)
        target = _number(read, "target", where)
        if not 0 < target < 1:
            raise BadUseError(f"{where}: target is {target:g}, but must be between 0 and 1, such as 0.999")
        days = read.get("window_days", WINDOW_DAYS)
        if not isinstance(days, int) or isinstance(days, bool) or not 1 <= days <= 366:
            raise BadUseError(f"{where}: window_days must be a whole number from 1 to 366")
        latency_ms = _number(read, "latency_ms", where)
        if latency_ms < 0.001:
            raise BadUseError(f"{where}: latency_ms must be at least 0.001")
        name, api = _text(read, "name", where), _text(read, "api", where)
        if api not in APIS:
            raise BadUseError(f"{where}: api {api} does not exist; the names are Kafka's: {', '.join(APIS)}")
        scope = {
            key: _text(read, key, where) for key in ("cluster_id", "topic", "principal") if read.get(key) is not None
        }
        found.append(Objective(name, api, latency_ms, target, days, **scope))
    _distinct([objective.name for objective in found], "objectives")
    return tuple(found)


def read_mirrors(text: str) -> tuple[Mirror, ...]:
    """Parse {"mirrors": [{"name": "eu", "source_cluster": "...", "mirror_cluster": "...", "prefix": "eu."}]}."""
    found = []
    for number, each in enumerate(_list(_json(text, "mirrors"), "mirrors", MIRRORS_MAX)):
        where = f"mirrors[{number}]"
        read = _object(each, where)
        _only(read, {field.name for field in fields(Mirror)}, where)
        names = [_text(read, key, where) for key in ("name", "source_cluster", "mirror_cluster")]
        topics = read.get("topics", [])
        if not isinstance(topics, list) or not all(isinstance(topic, str) and topic for topic in topics):
            raise BadUseError(f"{where}: topics must be a list of names")
        if len(topics) > MIRROR_TOPICS_MAX:
            raise BadUseError(
                f"{where}: {len(topics)} topics, but at most {MIRROR_TOPICS_MAX} are allowed: use prefixes, "
                "such as orders.*"
            )
        prefix = read.get("prefix", "")
        if not isinstance(prefix, str):
            raise BadUseError(f"{where}: prefix must be a text")
        if names[1] == names[2] and not prefix:
            raise BadUseError(f"{where}: a topic cannot be its own mirror: give another mirror_cluster, or a prefix")
        found.append(Mirror(names[0], names[1], names[2], prefix, tuple(topics)))
    _distinct([mirror.name for mirror in found], "mirrors")
    return tuple(found)


def read_storms(text: str) -> StormLimits:
    """Parse the limits {"connections": 200, "held": 20}. Missing values are the defaults of StormLimits."""
    read = _object(_json(text, "storms"), "storms")
    _only(read, {field.name for field in fields(StormLimits)}, "storms")
    for key, value in read.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise BadUseError(f"storms: {key} must be a whole number of at least 1")
    return StormLimits(**read)


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadUseError(f"the file of {what} is not JSON: {error}") from None


def _object(read: Any, where: str) -> dict[str, Any]:
    if not isinstance(read, dict):
        raise BadUseError(f"{where} must be an object, {{...}}")
    return read


def _list(read: Any, key: str, most: int) -> list[Any]:
    found = _object(read, f"the file of {key}").get(key)
    if not isinstance(found, list) or len(read) != 1:
        raise BadUseError(f'the file of {key} must be {{"{key}": [...]}}')
    if len(found) > most:
        raise BadUseError(f"the file of {key} has {len(found)} entries; one build computes at most {most}")
    return found


def _only(read: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(read.keys() - known)
    if unknown:
        raise BadUseError(f"{where}: {unknown[0]} is not known; the keys are {', '.join(sorted(known))}")


def _text(read: Mapping[str, Any], key: str, where: str) -> str:
    value = read.get(key)
    if not isinstance(value, str) or not value:
        raise BadUseError(f"{where}: {key} must be a text that is not empty")
    return value


def _number(read: Mapping[str, Any], key: str, where: str, default: float | None = None) -> float:
    value = read.get(key, default)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:
        raise BadUseError(f"{where}: {key} must be a number that is not negative")
    return float(value)


def _distinct(names: list[str], where: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadUseError(f"{where}: the name {twice[0]} occurs twice")
