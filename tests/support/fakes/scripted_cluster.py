"""An in-memory cluster for tests of the quota path: brokers with limits in Kafka's layers, one of them slow or away.

cluster = ScriptedCluster(brokers=3)
cluster.peers[2].refuse = True          # down
cluster.lags.add(1)                     # does not see changes until it is taken out of the set
pool = cluster.pool()
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest
from kio.schema.alter_client_quotas.v1.request import EntryData as AlterEntryData
from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse
from kio.schema.alter_client_quotas.v1.response import EntityData as AlteredEntity
from kio.schema.alter_client_quotas.v1.response import EntryData as AlteredEntry
from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest
from kio.schema.describe_client_quotas.v1.response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from kio.serial import entity_reader
from kio.static.primitive import f64, i8
from kio.static.protocol import RequestPayload, ResponsePayload

from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.asking import BrokerPool
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.quotas import MATCH_ANY_NAME
from sluicegate_operator.kafka_admin.views import ConfigSource
from sluicegate_operator.planning.limits.limits import IP, Entity
from tests.support.fakes.scripted_peer import NO_THROTTLE, PeerRequest, ScriptedPeer, encode, framed

Request = TypeVar("Request", bound=RequestPayload)
Layer = dict[str, str]

DEFAULTS: Layer = {"max.connections": "2147483647", "max.connection.creation.rate": "2147483647"}
REFUSED = "refused"
"""A configuration value that every broker refuses, like an ip rate of -1.0. A test may add to both."""


class ScriptedCluster:
    """Brokers that answer from one shared state.

    `built_in` are a broker's values without any configuration. `defaults`, `overrides`, `ip_rates` and `groups` are
    what the controller knows. A broker in `lags` still shows the past, except of groups.
    """

    def __init__(self, brokers: int) -> None:
        self.peers = [ScriptedPeer() for _ in range(brokers)]
        self.built_in: Layer = dict(DEFAULTS)
        self.defaults: Layer = {}
        self.overrides: dict[int, Layer] = {number: {} for number in range(brokers)}
        self.ip_rates: dict[str | None, float] = {}
        self.groups: dict[Entity, dict[str, float]] = {}
        """Limits of connection groups and their members, by entity."""
        self.lags: set[int] = set()
        self.documentation: dict[int, Layer] = {}
        """By broker and key: the documentation that it returns on request."""
        self.refused, self.refused_rates = {REFUSED}, {-1.0}
        self.refused_group_keys: set[str] = set()
        """Keys of connection groups that a controller of an earlier release does not know."""
        self.unanswered: dict[int, int] = {}
        """By broker: the number of next requests for its configuration that get no answer."""
        self.alterations = 0
        self.quotas_told = 0
        """Number of client quotas in the answers of all brokers."""
        self._altered = asyncio.Event()
        for number, peer in enumerate(self.peers):
            peer.script(32, partial(self._configs, number))
            peer.script(44, self._answer(IncrementalAlterConfigsRequest, partial(self._alter, number)))
            peer.script(49, self._answer(AlterClientQuotasRequest, self._alter_rates))
            peer.script(48, self._answer(DescribeClientQuotasRequest, partial(self._describe_rates, number)))

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until the condition holds; it is checked after each change that the brokers receive."""
        while not holds():
            self._altered.clear()
            await self._altered.wait()

    def pool(self, ask_timeout_s: float = 0.2) -> BrokerPool:
        async def connect(address: tuple[str, int], factory: Callable[[], asyncio.Protocol]) -> object:
            return await self.peers[int(address[0][1:])].connect(address, factory)

        brokers = tuple(BrokerAddress(number, f"b{number}", 9092) for number in range(len(self.peers)))
        admin = AdminClient([(broker.host, broker.port) for broker in brokers], connect=connect)
        return BrokerPool(admin, brokers, ask_timeout_s)

    @staticmethod
    def _answer(kind: type[Request], handle: Callable[[Request], ResponsePayload]) -> Callable[[PeerRequest], bytes]:
        def answer(request: PeerRequest) -> bytes:
            body = ScriptedCluster.decoded(kind, request)
            return framed(request.correlation_id, b"\x00" + encode(handle(body)))

        return answer

    @staticmethod
    def decoded(kind: type[Request], request: PeerRequest) -> Request:
        _header, header_size = entity_reader(kind.__header_schema__)(request.frame, 0)
        body, _size = entity_reader(kind)(request.frame, header_size)
        return body

    def _configs(self, number: int, request: PeerRequest) -> bytes | None:
        if self.unanswered.get(number):
            self.unanswered[number] -= 1
            return None
        return self._answer(DescribeConfigsRequest, partial(self._describe, number))(request)

    def _describe(self, number: int, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        (resource,) = request.resources
        layers = [
            (ConfigSource.DYNAMIC_BROKER_CONFIG, self.overrides[number]),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, {} if number in self.lags else self.defaults),
            (ConfigSource.DEFAULT_CONFIG, self.built_in),
        ]
        names = sorted({key for _, layer in layers for key in layer})
        wanted = [n for n in names if resource.configuration_keys is None or n in resource.configuration_keys]
        result = DescribeConfigsResult(
            error_code=ErrorCode.none,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=tuple(_entry(name, layers, self._said(number, name, request)) for name in wanted),
        )
        return DescribeConfigsResponse(throttle_time=NO_THROTTLE, results=(result,))

    def _said(self, number: int, name: str, request: DescribeConfigsRequest) -> str | None:
        return self.documentation.get(number, {}).get(name) if request.include_documentation else None

    def _alter(self, number: int, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        self.alterations += 1
        (resource,) = request.resources
        refused = any(config.value in self.refused for config in resource.configs)
        refused = refused or resource.resource_name not in ("", str(number))
        layer = self.defaults if resource.resource_name == "" else self.overrides[number]
        for config in () if refused else resource.configs:
            if config.value is None:
                layer.pop(config.name, None)
            else:
                layer[config.name] = config.value
        self._altered.set()
        response = AlterConfigsResourceResponse(
            error_code=ErrorCode.invalid_request if refused else ErrorCode.none,
            error_message="no such value" if refused else None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        return IncrementalAlterConfigsResponse(throttle_time=NO_THROTTLE, responses=(response,))

    def _alter_rates(self, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
        self.alterations += 1
        results = []
        for entry in request.entries:
            if len(entry.entity) > 1 or entry.entity[0].entity_type != IP:
                results.append(self._alter_group(entry))
                continue
            (entity,), (op,) = entry.entity, entry.ops
            refused = op.value in self.refused_rates
            if op.remove:
                self.ip_rates.pop(entity.entity_name, None)
            elif not refused:
                self.ip_rates[entity.entity_name] = op.value
            self._altered.set()
            altered = AlteredEntity(entity_type=entity.entity_type, entity_name=entity.entity_name)
            code = ErrorCode.invalid_request if refused else ErrorCode.none
            results.append(AlteredEntry(error_code=code, error_message=None, entity=(altered,)))
        return AlterClientQuotasResponse(throttle_time=NO_THROTTLE, entries=tuple(results))

    def _alter_group(self, entry: AlterEntryData) -> AlteredEntry:
        altered = tuple(AlteredEntity(entity_type=e.entity_type, entity_name=e.entity_name) for e in entry.entity)
        if any(op.key in self.refused_group_keys and not op.remove for op in entry.ops):
            return AlteredEntry(error_code=ErrorCode.invalid_request, error_message="no such key", entity=altered)
        of_entity = self.groups.setdefault(tuple(sorted((e.entity_type, e.entity_name) for e in entry.entity)), {})
        for op in entry.ops:
            of_entity.pop(op.key, None)
            if not op.remove:
                of_entity[op.key] = op.value
        return AlteredEntry(error_code=ErrorCode.none, error_message=None, entity=altered)

    def _describe_groups(self, components: tuple[ComponentData, ...], *, strict: bool) -> DescribeClientQuotasResponse:
        asked = {one.entity_type: one.match for one in components}
        entries = [
            EntryData(
                entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
                values=tuple(ValueData(key=key, value=f64(value)) for key, value in values.items()),
            )
            for entity, values in self.groups.items()
            if values
            and asked.keys() <= dict(entity).keys()
            and all(asked.get(kind) in (None, name) for kind, name in entity)
            and not (strict and len(asked) < len(entity))
        ]
        return DescribeClientQuotasResponse(
            throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None, entries=tuple(entries)
        )

    def _describe_rates(self, number: int, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
        known = {} if number in self.lags else self.ip_rates
        if any(component.entity_type != IP for component in request.components):
            return self._describe_groups(request.components, strict=request.strict)
        (component,) = request.components
        if component.match_type != MATCH_ANY_NAME:
            known = {component.match: known[component.match]} if component.match in known else {}
        self.quotas_told += len(known)
        entries = tuple(
            EntryData(
                entity=(EntityData(entity_type="ip", entity_name=address),),
                values=(ValueData(key="connection_creation_rate", value=f64(rate)),),
            )
            for address, rate in known.items()
        )
        return DescribeClientQuotasResponse(
            throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None, entries=entries
        )


def _entry(name: str, layers: list[tuple[ConfigSource, Layer]], said: str | None) -> DescribeConfigsResourceResult:
    synonyms = tuple(
        DescribeConfigsSynonym(name=name, value=layer[name], source=i8(source))
        for source, layer in layers
        if name in layer
    )
    return DescribeConfigsResourceResult(
        name=name,
        value=synonyms[0].value,
        read_only=False,
        config_source=synonyms[0].source,
        is_sensitive=False,
        synonyms=synonyms,
        documentation=said,
    )
