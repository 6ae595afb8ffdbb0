"""DescribeConfigs and IncrementalAlterConfigs (KIP-133, KIP-226, KIP-339) for brokers and topics."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResourceResult, DescribeConfigsResponse
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.static.primitive import i8

from sluicegate_operator.kafka_admin.connecting.exchange import Exchange
from sluicegate_operator.kafka_admin.errors import KafkaAdminError, check
from sluicegate_operator.kafka_admin.views import ConfigEntry, Configs, ConfigSource, ConfigSynonym

SET, DELETE = i8(0), i8(1)
MIN_ISR = "min.insync.replicas"
TOPICS_A_PAGE = 200


class ResourceType(IntEnum):
    """The type of a configuration's resource, by its number in the Kafka protocol."""

    TOPIC = 2
    BROKER = 4


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A change of one resource's configuration in one atomic request.

    It has keys to set, and keys to reset to the next layer.
    """

    set: Mapping[str, str] = field(default_factory=dict)
    delete: Collection[str] = ()


def describe_broker(
    broker_id: int, keys: Collection[str] | None, *, with_documentation: bool = False
) -> Exchange[DescribeConfigsResponse, Configs]:
    return _describe(ResourceType.BROKER, str(broker_id), keys, with_documentation)


def describe_topic(name: str, keys: Collection[str] | None) -> Exchange[DescribeConfigsResponse, Configs]:
    return _describe(ResourceType.TOPIC, name, keys)


def describe_topics(
    names: Sequence[str], keys: Collection[str] | None = None
) -> Exchange[DescribeConfigsResponse, Mapping[str, Configs]]:
    """Return the request that describes many topics at once. Unknown topics are left out of the result."""
    wanted = None if keys is None else tuple(keys)
    resources = tuple(
        DescribeConfigsResource(resource_type=i8(ResourceType.TOPIC), resource_name=name, configuration_keys=wanted)
        for name in names
    )
    request = DescribeConfigsRequest(resources=resources, include_synonyms=False, include_documentation=False)

    def read(reply: DescribeConfigsResponse) -> Mapping[str, Configs]:
        found: dict[str, Configs] = {}
        for result in reply.results:
            if result.error_code is ErrorCode.unknown_topic_or_partition:
                continue
            subject = f"describing the configuration of {_shown(ResourceType.TOPIC, result.resource_name)}"
            check(result.error_code, result.error_message, subject)
            found[result.resource_name] = {entry.name: _entry(entry) for entry in result.configs}
        return found

    return Exchange(request, DescribeConfigsResponse, read)


def min_isr(topic: str, told: Configs) -> int:
    """Return the topic's min.insync.replicas. Raises KafkaAdminError if `told`, the broker's report, lacks it."""
    value = told[MIN_ISR].value if MIN_ISR in told else None
    if value is None:
        raise KafkaAdminError(f"topic {topic} has no {MIN_ISR}")
    return int(value)


def alter_broker(broker_id: int | None, change: ConfigChange) -> Exchange[IncrementalAlterConfigsResponse, None]:
    """Return the request that alters a broker's configuration. None is the default of all brokers.

    In the request, an empty name stands for that default.
    """
    return _alter(ResourceType.BROKER, "" if broker_id is None else str(broker_id), change)


def alter_topic(name: str, change: ConfigChange) -> Exchange[IncrementalAlterConfigsResponse, None]:
    return _alter(ResourceType.TOPIC, name, change)


def _describe(
    kind: ResourceType, name: str, keys: Collection[str] | None, with_documentation: bool = False
) -> Exchange[DescribeConfigsResponse, Configs]:
    resource = DescribeConfigsResource(
        resource_type=i8(kind),
        resource_name=name,
        configuration_keys=None if keys is None else tuple(keys),
    )
    request = DescribeConfigsRequest(
        resources=(resource,), include_synonyms=True, include_documentation=with_documentation
    )
    subject = f"describing the configuration of {_shown(kind, name)}"

    def read(reply: DescribeConfigsResponse) -> Configs:
        if len(reply.results) != 1:
            raise KafkaAdminError(f"{subject}: expected one result, the broker sent {len(reply.results)}")
        result = reply.results[0]
        check(result.error_code, result.error_message, subject)
        return {entry.name: _entry(entry) for entry in result.configs}

    return Exchange(request, DescribeConfigsResponse, read)


def _entry(entry: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        name=entry.name,
        value=entry.value,
        source=ConfigSource(entry.config_source),
        is_sensitive=entry.is_sensitive,
        read_only=entry.read_only,
        synonyms=tuple(ConfigSynonym(s.name, s.value, ConfigSource(s.source)) for s in entry.synonyms),
        documentation=entry.documentation or "",
    )


def _alter(kind: ResourceType, name: str, change: ConfigChange) -> Exchange[IncrementalAlterConfigsResponse, None]:
    if both := set(change.set) & set(change.delete):
        raise ValueError(f"{', '.join(sorted(both))}: a key is either set or deleted in one change, not both")
    changes = [AlterableConfig(name=key, config_operation=SET, value=value) for key, value in change.set.items()]
    changes += [AlterableConfig(name=key, config_operation=DELETE, value=None) for key in change.delete]
    resource = AlterConfigsResource(resource_type=i8(kind), resource_name=name, configs=tuple(changes))
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    subject = f"altering the configuration of {_shown(kind, name)}"

    def read(reply: IncrementalAlterConfigsResponse) -> None:
        if len(reply.responses) != 1:
            raise KafkaAdminError(f"{subject}: expected one result, the broker sent {len(reply.responses)}")
        check(reply.responses[0].error_code, reply.responses[0].error_message, subject)

    return Exchange(request, IncrementalAlterConfigsResponse, read)


def _shown(kind: ResourceType, name: str) -> str:
    return f"{kind.name.lower()} {name}" if name else "all brokers"
