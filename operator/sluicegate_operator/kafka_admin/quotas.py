"""Describe- and AlterClientQuotas (KIP-546): values by entity and key, as numbers.

The caller names the types of entities. Entities with a client-id are never read and never changed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse
from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest
from kio.schema.describe_client_quotas.v1.response import DescribeClientQuotasResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import f64, i8

from sluicegate_operator.kafka_admin.connecting.exchange import Exchange
from sluicegate_operator.kafka_admin.errors import KafkaApiError, check
from sluicegate_operator.planning.limits.connection_groups import CONNECTION_GROUP
from sluicegate_operator.planning.limits.limits import Entity, QuotaKey, quota_words

MATCH_EXACT_NAME, MATCH_DEFAULT_NAME, MATCH_ANY_NAME = i8(0), i8(1), i8(2)

ALTERED_A_REQUEST = 100
"""Maximum number of values in one request, but never fewer than all values of one entity.

A controller writes the values of a request as one batch, and does nothing else meanwhile: the bundled one for about 7
ms.
"""


def describe_all(entity_type: str, *, strict: bool) -> Exchange[DescribeClientQuotasResponse, Mapping[QuotaKey, float]]:
    """Return the request that describes all entities with the type. With `strict`, they have no other type."""
    component = ComponentData(entity_type=entity_type, match_type=MATCH_ANY_NAME, match=None)
    return replace(_describe((component,), f"describing the quotas of {entity_type}", strict=strict), keeps_answer=True)


def describe_one(entity: Entity) -> Exchange[DescribeClientQuotasResponse, Mapping[QuotaKey, float]]:
    components = tuple(
        ComponentData(entity_type=kind, match_type=MATCH_DEFAULT_NAME if name is None else MATCH_EXACT_NAME, match=name)
        for kind, name in entity
    )
    return _describe(components, f"describing the quotas of {entity}", strict=True)


def _may_be_unknown(components: tuple[ComponentData, ...]) -> bool:
    """Return whether the broker may not know the type: a release before connection groups reports an error."""
    return any(component.entity_type == CONNECTION_GROUP for component in components)


def _describe(
    components: tuple[ComponentData, ...], subject: str, *, strict: bool
) -> Exchange[DescribeClientQuotasResponse, Mapping[QuotaKey, float]]:
    def read(reply: DescribeClientQuotasResponse) -> dict[QuotaKey, float]:
        if reply.error_code is ErrorCode.unsupported_version and _may_be_unknown(components):
            return {}
        check(reply.error_code, reply.error_message, subject)
        found: dict[QuotaKey, float] = {}
        for entry in reply.entries or ():
            # Sorted, because brokers name the components in any order.
            entity = tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity))
            found.update({(entity, value.key): float(value.value) for value in entry.values})
        return found

    request = DescribeClientQuotasRequest(components=components, strict=strict)
    return Exchange(request, DescribeClientQuotasResponse, read)


def requests(values: Mapping[QuotaKey, float | None]) -> Iterator[Mapping[QuotaKey, float | None]]:
    """Yield the values of each request, without splitting an entity.

    Otherwise a group that should only observe, or be shared, would have another mode in between.
    """
    by_entity: dict[Entity, dict[QuotaKey, float | None]] = {}
    for key, value in values.items():
        by_entity.setdefault(key[0], {})[key] = value
    page: dict[QuotaKey, float | None] = {}
    for of_entity in by_entity.values():
        if page and len(page) + len(of_entity) > ALTERED_A_REQUEST:
            yield page
            page = {}
        page |= of_entity
    if page:
        yield page


def alter(
    values: Mapping[QuotaKey, float | None],
) -> Exchange[AlterClientQuotasResponse, dict[QuotaKey, KafkaApiError]]:
    """Return the request that alters quotas; None removes a value.

    The result has the errors of refused quotas; the others are altered.
    """
    by_entity: dict[Entity, dict[str, float | None]] = {}
    for (entity, key), value in values.items():
        by_entity.setdefault(entity, {})[key] = value
    entries = tuple(_entry(entity, keys) for entity, keys in by_entity.items())
    request = AlterClientQuotasRequest(entries=entries, validate_only=False)

    def read(reply: AlterClientQuotasResponse) -> dict[QuotaKey, KafkaApiError]:
        refused: dict[QuotaKey, KafkaApiError] = {}
        for entry in reply.entries:
            if entry.error_code is ErrorCode.none:
                continue
            entity = tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity))
            for key in by_entity.get(entity, ()):
                subject = f"altering {quota_words((entity, key))}"
                refused[entity, key] = KafkaApiError(int(entry.error_code), entry.error_message, subject)
        return refused

    return Exchange(request, AlterClientQuotasResponse, read)


def _entry(entity: Entity, keys: Mapping[str, float | None]) -> EntryData:
    parts = tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity)
    ops = tuple(OpData(key=key, value=f64(value or 0.0), remove=value is None) for key, value in keys.items())
    return EntryData(entity=parts, ops=ops)
