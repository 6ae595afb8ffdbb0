"""One cluster of simulated brokers: topics, limits of every kind of entity, configuration, brokers' states.

All brokers of a cluster have the same state at once. `revision` counts the changes. Long answers are encoded once for
each revision, so that a measurement does not measure the simulation.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest
from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse
from kio.schema.alter_client_quotas.v1.response import EntityData as AlteredEntity
from kio.schema.alter_client_quotas.v1.response import EntryData as AlteredEntry
from kio.schema.create_partitions.v3.request import CreatePartitionsRequest
from kio.schema.create_partitions.v3.response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreatableTopicResult, CreateTopicsResponse
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse
from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest
from kio.schema.describe_client_quotas.v1.response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kio.schema.describe_cluster.v0.response import DescribeClusterBroker, DescribeClusterResponse
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from kio.schema.list_partition_reassignments.v0.response import ListPartitionReassignmentsResponse
from kio.schema.metadata.v11.request import MetadataRequest
from kio.schema.metadata.v11.response import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from kio.schema.types import BrokerId, TopicName
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse
from kio.static.primitive import f64, i8, i32

from kafka_bytes.messages.broker_metadata import BrokerMetadataResponse, DescribedBroker
from sluicegate_operator.kafka_admin.configs import MIN_ISR, ResourceType
from sluicegate_operator.kafka_admin.views import ConfigSource
from sluicegate_operator.planning.layout.cluster_layout import FIRST_CONTROLLER_ID, INTERNAL_PORT
from sluicegate_operator.planning.observers.observers import LOADED, class_key
from tests.support.fakes.scripted_cluster import ScriptedCluster
from tests.support.fakes.scripted_peer import NO_THROTTLE, SERVED, PeerRequest, encode, framed, versions

RATE = "connection_creation_rate"
EXACT, DEFAULT = 0, 1
MIN_ISR_DEFAULT = "1"
TOLD_MAX = 1000

Entity = tuple[tuple[str, str | None], ...]
"""Types and names, in order of the types; a name of None is the default entity."""


@dataclass(slots=True)
class PlayedTopic:
    """A topic of the simulated cluster."""

    id: UUID
    partitions: list[tuple[int, ...]]
    """Replicas of each partition."""
    configs: dict[str, str] = field(default_factory=dict)


class ServedCluster(ScriptedCluster):
    """A cluster that is simulated on sockets.

    `host` returns the host of a broker. `silent`: no broker answers; `late_s`: every answer is so much later.
    """

    def __init__(self, name: str, brokers: int, host: Callable[[int], str]) -> None:
        super().__init__(brokers)
        self.name = name
        self.id = name
        """The cluster.id that its brokers and controllers report."""
        self.brokers = brokers
        self.host = host
        self.silent = False
        self.late_s = 0.0
        self.topics: dict[str, PlayedTopic] = {}
        self.quotas: dict[Entity, dict[str, float]] = {}
        """Quotas by entity. Rates of single addresses are in `ip_rates` as well."""
        self.told: list[tuple[Entity, str, float | None]] = []
        """The last TOLD_MAX changes of `quotas`; None for a removed limit."""
        self.configs_told: list[tuple[str, str, str | None]] = []
        """The same for the configuration of brokers: whose (empty: the default of all), key and value."""
        self.epochs: dict[int, int] = {}
        """Epochs of the registered brokers, for the newest incarnation of each."""
        self.online: set[int] = set()
        self.revision = 0
        self.changed = asyncio.Event()
        """A new event at each revision: a waiting task takes this one and waits for it."""
        self._encoded: dict[object, tuple[int, bytes]] = {}
        self._incarnations = 0
        self._wanted: dict[tuple[str, float], asyncio.Future[float]] = {}
        for peer in self.peers:
            peer.answer(versions({**SERVED, 45: 0, 46: 0, 64: 0}))
            peer.answer(_NOTHING_MOVES)
            peer.script(60, self._kept(60, self._described))
            peer.script(30_000, self._kept(30_000, self._metadata_of_brokers, flexible=False))
            peer.script(3, self._answer(MetadataRequest, self._topics_shown))
            peer.script(19, self._answer(CreateTopicsRequest, self._create))
            peer.script(37, self._answer(CreatePartitionsRequest, self._grow))
            peer.script(20, self._answer(DeleteTopicsRequest, self._delete))
            peer.script(48, self._describe_quotas)
            peer.script(64, self._answer(UnregisterBrokerRequest, self._unregister))
            peer.script(49, self._answer(AlterClientQuotasRequest, self._alter_quotas))

    def expect(self, address: str, rate: float) -> "asyncio.Future[float]":
        """A future that gets the loop's time at which the brokers received this rate."""
        return self._wanted.setdefault((address, rate), asyncio.get_running_loop().create_future())

    def begin(self, broker_id: int) -> None:
        """Register a new process of the broker."""
        self._incarnations += 1
        self.epochs[broker_id] = self._incarnations
        self.online.add(broker_id)
        self._revise()

    def end(self, broker_id: int) -> None:
        self.online.discard(broker_id)
        self._revise()

    @property
    def version(self) -> str:
        """Version of the view."""
        return f"1,{self.revision}"

    def view(self) -> Mapping[str, object]:
        """The view that its active controller shows at /brokers."""
        brokers = []
        for broker_id, epoch in sorted(self.epochs.items()):
            own = [isr for replicas, isr in self._partitions() if broker_id in replicas]
            up = broker_id in self.online
            brokers.append(
                {
                    "id": broker_id,
                    "epoch": epoch,
                    "incarnation": str(UUID(int=epoch)),
                    "state": "Online" if up else "Offline",
                    "rack": None,
                    "heartbeatAgeSeconds": 0.1 if up else None,
                    "leaders": sum(isr[:1] == (broker_id,) for isr in own),
                    "replicas": len(own),
                    "outOfSync": sum(broker_id not in isr for isr in own),
                    "metadataLag": 0 if up else None,
                    "host": self.host(broker_id),
                }
            )
        return {
            "clusterId": self.id,
            "controllerId": FIRST_CONTROLLER_ID,
            "controllerEpoch": 1,
            "metadataOffset": self.revision,
            "version": self.version,
            "brokers": brokers,
        }

    def _revise(self) -> None:
        self.revision += 1
        self.changed.set()
        self.changed = asyncio.Event()

    def _partitions(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Replicas of each partition, and the in-sync ones, the leader first."""
        for topic in self.topics.values():
            for replicas in topic.partitions:
                yield replicas, self._in_sync(replicas)

    def _in_sync(self, replicas: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(broker_id for broker_id in replicas if broker_id in self.online)

    def _kept(
        self, key: object, make: Callable[[], object], *, flexible: bool = True
    ) -> Callable[[PeerRequest], bytes]:
        def answer(request: PeerRequest) -> bytes:
            return framed(request.correlation_id, self._once(key, make, flexible=flexible))

        return answer

    def _once(self, key: object, make: Callable[[], object], *, flexible: bool = True) -> bytes:
        """The response, encoded once for this revision."""
        found = self._encoded.get(key)
        if found is None or found[0] != self.revision:
            body = encode(make())  # type: ignore[arg-type]
            found = self._encoded[key] = (self.revision, b"\x00" + body if flexible else body)
        return found[1]

    def _described(self) -> DescribeClusterResponse:
        return DescribeClusterResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            cluster_id=self.id,
            controller_id=BrokerId(FIRST_CONTROLLER_ID),
            brokers=tuple(
                DescribeClusterBroker(broker_id=BrokerId(one), host=self.host(one), port=i32(INTERNAL_PORT))
                for one in sorted(self.online)
            ),
        )

    def _metadata_of_brokers(self) -> BrokerMetadataResponse:
        return BrokerMetadataResponse(
            brokers=tuple(
                DescribedBroker(
                    node_id=i32(one),
                    host=self.host(one),
                    port=i32(INTERNAL_PORT),
                    protocol_version_min=i32(0),
                    protocol_version_max=i32(0),
                    tags=(),
                )
                for one in sorted(self.online)
            )
        )

    def _topics_shown(self, request: MetadataRequest) -> MetadataResponse:
        names = sorted(self.topics) if request.topics is None else [str(topic.name) for topic in request.topics]
        return MetadataResponse(
            throttle_time=NO_THROTTLE,
            brokers=(),
            cluster_id=self.id,
            controller_id=BrokerId(FIRST_CONTROLLER_ID),
            topics=tuple(self._shown(name) for name in names),
        )

    def _shown(self, name: str) -> MetadataResponseTopic:
        topic = self.topics.get(name)
        if topic is None:
            code = ErrorCode.unknown_topic_or_partition
            return MetadataResponseTopic(error_code=code, name=TopicName(name), topic_id=None, partitions=())
        partitions = tuple(_partition(index, r, self._in_sync(r)) for index, r in enumerate(topic.partitions))
        return MetadataResponseTopic(
            error_code=ErrorCode.none, name=TopicName(name), topic_id=topic.id, partitions=partitions
        )

    def _create(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        results = []
        for wanted in request.topics:
            there = wanted.name in self.topics
            if not there:
                made = PlayedTopic(UUID(int=1 + self.revision), [])
                self._add_partitions(made, wanted.num_partitions, wanted.replication_factor)
                made.configs = {config.name: config.value or "" for config in wanted.configs}
                self.topics[wanted.name] = made
                self._revise()
            code = ErrorCode.topic_already_exists if there else ErrorCode.none
            result = CreatableTopicResult(
                name=wanted.name, topic_id=self.topics[wanted.name].id, error_code=code, error_message=None, configs=()
            )
            results.append(result)
        return CreateTopicsResponse(throttle_time=NO_THROTTLE, topics=tuple(results))

    def _add_partitions(self, topic: PlayedTopic, total: int, replicas: int) -> None:
        for index in range(len(topic.partitions), max(total, 1)):
            places = sorted(self.online) or range(self.brokers)
            topic.partitions.append(tuple(places[(index + n) % len(places)] for n in range(max(replicas, 1))))

    def _grow(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        results = []
        for wanted in request.topics:
            topic = self.topics.get(wanted.name)
            if topic is not None:
                self._add_partitions(topic, wanted.count, len(topic.partitions[0]))
                self._revise()
            code = ErrorCode.unknown_topic_or_partition if topic is None else ErrorCode.none
            results.append(CreatePartitionsTopicResult(name=wanted.name, error_code=code))
        return CreatePartitionsResponse(throttle_time=NO_THROTTLE, results=tuple(results))

    def _delete(self, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        results = []
        names = {topic.id: name for name, topic in self.topics.items()}
        for wanted in request.topics:
            name, unknown = str(wanted.name), ErrorCode.unknown_topic_or_partition
            if wanted.topic_id is not None:
                name, unknown = names.get(wanted.topic_id, ""), ErrorCode.unknown_topic_id
            code = unknown if self.topics.pop(name, None) is None else ErrorCode.none
            results.append(DeletableTopicResult(name=TopicName(name), topic_id=wanted.topic_id, error_code=code))
        self._revise()
        return DeleteTopicsResponse(throttle_time=NO_THROTTLE, responses=tuple(results))

    def _unregister(self, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
        self.online.discard(request.broker_id)
        known = self.epochs.pop(request.broker_id, None) is not None
        self._revise()
        code = ErrorCode.none if known else ErrorCode.broker_id_not_registered
        return UnregisterBrokerResponse(throttle_time=NO_THROTTLE, error_code=code, error_message=None)

    def _describe(self, number: int, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        if int(request.resources[0].resource_type) != ResourceType.TOPIC:
            return super()._describe(number, request)
        results = tuple(self._described_topic(resource.resource_name) for resource in request.resources)
        return DescribeConfigsResponse(throttle_time=NO_THROTTLE, results=results)

    def _said(self, number: int, name: str, request: DescribeConfigsRequest) -> str | None:
        """Every configured observer is reported as loaded at once."""
        observer = name.removeprefix("observer.").removesuffix(".class")
        if request.include_documentation and name == class_key(observer):
            return f"On this broker: {observer}: {LOADED}"
        return super()._said(number, name, request)

    def _described_topic(self, name: str) -> DescribeConfigsResult:
        topic = self.topics.get(name)
        own = {} if topic is None else topic.configs
        entries = [_topic_entry(key, value, ConfigSource.DYNAMIC_TOPIC_CONFIG) for key, value in own.items()]
        if MIN_ISR not in own:
            entries.append(_topic_entry(MIN_ISR, MIN_ISR_DEFAULT, ConfigSource.DEFAULT_CONFIG))
        return DescribeConfigsResult(
            error_code=ErrorCode.unknown_topic_or_partition if topic is None else ErrorCode.none,
            error_message=None,
            resource_type=i8(ResourceType.TOPIC),
            resource_name=name,
            configs=() if topic is None else tuple(entries),
        )

    def _alter(self, number: int, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        self._revise()
        if int(request.resources[0].resource_type) != ResourceType.TOPIC:
            (resource,) = request.resources
            self.configs_told += [(resource.resource_name, one.name, one.value) for one in resource.configs]
            del self.configs_told[:-TOLD_MAX]
            return super()._alter(number, request)
        responses = []
        for resource in request.resources:
            topic = self.topics.get(resource.resource_name)
            for config in resource.configs if topic is not None else ():
                if config.value is None:
                    topic.configs.pop(config.name, None)  # type: ignore[union-attr]
                else:
                    topic.configs[config.name] = config.value  # type: ignore[union-attr]
            response = AlterConfigsResourceResponse(
                error_code=ErrorCode.unknown_topic_or_partition if topic is None else ErrorCode.none,
                error_message=None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            responses.append(response)
        return IncrementalAlterConfigsResponse(throttle_time=NO_THROTTLE, responses=tuple(responses))

    def _alter_quotas(self, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
        self.alterations += 1
        now_s = asyncio.get_running_loop().time()
        results = []
        for entry in request.entries:
            entity: Entity = tuple(sorted((one.entity_type, one.entity_name) for one in entry.entity))
            limits = self.quotas.setdefault(entity, {})
            for op in entry.ops:
                if op.remove:
                    limits.pop(op.key, None)
                else:
                    limits[op.key] = float(op.value)
                self.told.append((entity, op.key, None if op.remove else float(op.value)))
            del self.told[:-TOLD_MAX]
            if not limits:
                del self.quotas[entity]
            self._note_rate(entity, limits.get(RATE), now_s)
            altered = tuple(AlteredEntity(entity_type=kind, entity_name=name) for kind, name in entity)
            results.append(AlteredEntry(error_code=ErrorCode.none, error_message=None, entity=altered))
        self._revise()
        self._altered.set()
        return AlterClientQuotasResponse(throttle_time=NO_THROTTLE, entries=tuple(results))

    def _note_rate(self, entity: Entity, rate: float | None, now_s: float) -> None:
        if [kind for kind, _ in entity] != ["ip"]:
            return
        address = entity[0][1]
        if rate is None:
            self.ip_rates.pop(address, None)
            return
        self.ip_rates[address] = rate
        expected = self._wanted.pop((address or "", rate), None)
        if expected is not None and not expected.done():
            expected.set_result(now_s)

    def _describe_quotas(self, request: PeerRequest) -> bytes:
        asked = self.decoded(DescribeClientQuotasRequest, request)
        wanted = tuple((one.entity_type, int(one.match_type), one.match) for one in asked.components)
        body = self._once((48, wanted, asked.strict), lambda: self._quotas_of(wanted, strict=asked.strict))
        return framed(request.correlation_id, body)

    def _quotas_of(
        self, wanted: tuple[tuple[str, int, str | None], ...], *, strict: bool
    ) -> DescribeClientQuotasResponse:
        entries = tuple(
            EntryData(
                entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
                values=tuple(ValueData(key=key, value=f64(value)) for key, value in limits.items()),
            )
            for entity, limits in self.quotas.items()
            if _matches(dict(entity), wanted, strict=strict)
        )
        return DescribeClientQuotasResponse(
            throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None, entries=entries
        )


def _matches(
    entity: Mapping[str, str | None], wanted: tuple[tuple[str, int, str | None], ...], *, strict: bool
) -> bool:
    if strict and len(entity) != len(wanted):
        return False
    for kind, match_type, match in wanted:
        if kind not in entity:
            return False
        name = entity[kind]
        if (match_type == EXACT and name != match) or (match_type == DEFAULT and name is not None):
            return False
    return True


def _partition(index: int, replicas: tuple[int, ...], in_sync: tuple[int, ...]) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=ErrorCode.none if in_sync else ErrorCode.leader_not_available,
        partition_index=i32(index),
        leader_id=BrokerId(in_sync[0] if in_sync else -1),
        replica_nodes=tuple(BrokerId(one) for one in replicas),
        isr_nodes=tuple(BrokerId(one) for one in in_sync),
        offline_replicas=tuple(BrokerId(one) for one in replicas if one not in in_sync),
    )


def _topic_entry(key: str, value: str, source: ConfigSource) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=key,
        value=value,
        read_only=False,
        config_source=i8(source),
        is_sensitive=False,
        synonyms=(),
        documentation=None,
    )


_NOTHING_MOVES = ListPartitionReassignmentsResponse(
    throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None, topics=()
)
