"""Metrics pushed by clients (KIP-714), which are dropped, as in Apache Kafka without a receiver. Pure.

A client asks which metrics to push and how often, and pushes them. The answers follow from the client metrics
subscriptions that match the client. The metrics that a client pushes are checked and dropped.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from broker_runtime.config.keys.client_metrics import (
    ALL_METRICS,
    INTERVAL_MS_DEFAULT,
    ClientMetricsSubscription,
    subscription,
)
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.configs import ResourceType
from broker_runtime.metadata.image import MetadataImage
from kafka_bytes.checksum import crc32c
from kafka_bytes.uuids import encode_uuid

MAX_BYTES = 1_048_576
"""Largest size of the metrics in one request; Kafka's default of telemetry.max.bytes."""
COMPRESSION_TYPES = (4, 3, 1, 2)
"""The accepted compressions zstd, lz4, gzip and snappy, in the order of clients' preference."""
_UNCOMPRESSED = 0
_KIND = ResourceType.CLIENT_METRICS
_INSTANCES_MAX = 16_384
"""Maximum number of clients remembered at a time, as in Kafka."""
_INTERVALS_KEPT = 3
_KEPT_S_MIN = 60.0
_NEVER = float("-inf")
_SETS_KEPT = 256
"""Number of sets of subscriptions whose metrics are cached."""
_RESERVED_MAX = 1
"""Client instance ids up to this number are reserved."""


class TelemetryClient(NamedTuple):
    """The properties of a client that a subscription may match."""

    client_id: str
    software_name: str
    software_version: str
    address: str
    port: int


class Pushed(NamedTuple):
    """A client's request with metrics. `size` is the size of the metrics, in bytes."""

    subscription_id: int
    compression_type: int
    size: int
    terminating: bool


class PushedMetrics(NamedTuple):
    """The metrics that a client should push, and the interval."""

    metrics: Sequence[str]
    interval_ms: int


@dataclass(slots=True)
class _Instance:
    """The state of one client."""

    wanted: PushedMetrics
    id: int
    """The id of the set of subscriptions that match the client."""
    seen_s: float
    asked_s: float = _NEVER
    pushed_s: float = _NEVER
    terminating: bool = False


class ClientTelemetry:
    """The telemetry state of clients with recent requests. It is not durable."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._instances: OrderedDict[UUID, _Instance] = OrderedDict()
        self._subscriptions = _Subscriptions()

    def subscriptions(self, instance_id: UUID, client: TelemetryClient, now_s: float) -> tuple[int, PushedMetrics]:
        """Return the id of the client's set of subscriptions, and the metrics to push.

        Raises KafkaError for a client that asks too often.
        """
        instance = self._instance(instance_id, client, now_s)
        if now_s - max(instance.asked_s, instance.pushed_s) < instance.wanted.interval_ms / 1000:
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the client requested its subscription before its next push is due"
            )
        instance.asked_s = now_s
        return instance.id, instance.wanted

    def push(self, instance_id: UUID, client: TelemetryClient, pushed: Pushed, now_s: float) -> None:
        """Check metrics that a client pushes. Raises KafkaError for metrics that the client may not push."""
        if instance_id.int <= _RESERVED_MAX:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"client instance id {instance_id} is reserved")
        instance = self._instance(instance_id, client, now_s)
        was_terminating, instance.terminating = instance.terminating, pushed.terminating
        if was_terminating:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the client's last request was marked as terminating")
        is_due = instance.asked_s > instance.pushed_s or now_s - instance.pushed_s >= instance.wanted.interval_ms / 1000
        if is_due:
            instance.pushed_s = now_s
        elif not pushed.terminating:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the client pushed before its next push is due")
        if pushed.subscription_id != instance.id:
            raise KafkaError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, "the subscriptions of the client have changed")
        if pushed.compression_type not in (_UNCOMPRESSED, *COMPRESSION_TYPES):
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression type {pushed.compression_type}")
        if pushed.size > MAX_BYTES:
            raise KafkaError(
                ErrorCode.TELEMETRY_TOO_LARGE, f"the metrics have {pushed.size} bytes; at most {MAX_BYTES} are allowed"
            )

    def _instance(self, instance_id: UUID, client: TelemetryClient, now_s: float) -> _Instance:
        """Return the state of a client. A client without a recent request here counts as new."""
        known = self._instances.pop(instance_id, None)
        if known is not None and now_s - known.seen_s > _kept_s(known.wanted.interval_ms):
            known = None
        wanted = self._wanted(instance_id, client)
        if known is None or known.wanted != wanted:
            known = _Instance(wanted, _subscription_id(wanted, instance_id), now_s)
        known.seen_s = now_s
        self._instances[instance_id] = known
        if len(self._instances) > _INSTANCES_MAX:
            self._instances.popitem(last=False)
        return known

    def _wanted(self, instance_id: UUID, client: TelemetryClient) -> PushedMetrics:
        configs = self._image.configs
        self._subscriptions.update({name: configs.of(_KIND, name) for name in configs.names(_KIND)})
        return self._subscriptions.wanted(_shown(instance_id, client))


class _Subscriptions:
    """The subscriptions, parsed once. All clients that the same subscriptions match share one Wanted."""

    def __init__(self) -> None:
        self._parsed: dict[str, tuple[Mapping[str, str], ClientMetricsSubscription | None]] = {}
        self._sets: OrderedDict[tuple[str, ...], PushedMetrics] = OrderedDict()

    def update(self, stored: Mapping[str, Mapping[str, str]]) -> None:
        """Parse the changed configurations. `stored` has the current ones by name; a changed one is another object."""
        known = self._parsed
        if len(known) == len(stored) and all(name in known and known[name][0] is own for name, own in stored.items()):
            return
        self._parsed = {}
        for name in sorted(stored):
            own = stored[name]
            before = known.get(name)
            self._parsed[name] = before if before is not None and before[0] is own else (own, subscription(own))
        self._sets.clear()

    def wanted(self, client: Mapping[str, str]) -> PushedMetrics:
        """Return the metrics for a client. `client` has a value for each key that a pattern may match."""
        names = tuple(name for name, (_, found) in self._parsed.items() if found is not None and found.matches(client))
        wanted = self._sets.pop(names, None)
        self._sets[names] = wanted = self._of(names) if wanted is None else wanted
        if len(self._sets) > _SETS_KEPT:
            self._sets.popitem(last=False)
        return wanted

    def _of(self, names: Sequence[str]) -> PushedMetrics:
        interval_ms, metrics = INTERVAL_MS_DEFAULT, dict[str, None]()
        for name in names:
            _, found = self._parsed[name]
            assert found is not None, "it has matched"
            interval_ms = min(interval_ms, found.interval_ms)
            metrics |= dict.fromkeys(found.metrics)
        return PushedMetrics((ALL_METRICS,) if ALL_METRICS in metrics else tuple(metrics), interval_ms)


def _shown(instance_id: UUID, client: TelemetryClient) -> Mapping[str, str]:
    return {
        "client_instance_id": encode_uuid(instance_id),
        "client_id": client.client_id,
        "client_software_name": client.software_name,
        "client_software_version": client.software_version,
        "client_source_address": client.address,
        "client_source_port": str(client.port),
    }


def _kept_s(interval_ms: int) -> float:
    return max(_KEPT_S_MIN, _INTERVALS_KEPT * interval_ms / 1000)


def _subscription_id(wanted: PushedMetrics, instance_id: UUID) -> int:
    """Return a signed 32-bit id that differs for another set of metrics, another interval or another client."""
    told = f"{sorted(wanted.metrics)} {wanted.interval_ms} {instance_id}".encode()
    return int.from_bytes(crc32c(told).to_bytes(4, "big"), "big", signed=True)
