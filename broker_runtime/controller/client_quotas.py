"""Client quotas (KIP-546, KIP-612 as shipped): what may be set, and which entities a filter finds. Pure.

Only `connection_creation_rate` of `ip` entities is enforced; the keys of users and client ids are checked and kept as
Kafka does. An `ip` may be a host name: whether it resolves is the caller's to find out (`hosts_to_resolve`).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from broker_runtime.config import INT_MAX, LONG_MAX, Type
from broker_runtime.config.addresses import canonical_address
from broker_runtime.controller.image import IP_RATE_KEY, MetadataImage, QuotaEntity
from broker_runtime.controller.records import ClientQuotaRecord
from broker_runtime.errors import ErrorCode, KafkaError

USER, CLIENT_ID, IP = "user", "client-id", "ip"
ENTITY_TYPES = (USER, CLIENT_ID, IP)

_USER_KEYS: Mapping[str, Type] = {
    "producer_byte_rate": Type.LONG,
    "consumer_byte_rate": Type.LONG,
    "request_percentage": Type.DOUBLE,
    "controller_mutation_rate": Type.DOUBLE,
}
_IP_KEYS: Mapping[str, Type] = {IP_RATE_KEY: Type.INT}
_LARGEST = {Type.INT: INT_MAX, Type.LONG: LONG_MAX}
_FRACTION_MAX = 1e-6


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """`value` None takes the quota away."""

    key: str
    value: float | None


EntityParts = Sequence[tuple[str, str | None]]
"""(type, name) pairs as a request gives them; a name of None is the default entity."""


def alter_quotas(
    parts: EntityParts, changes: Sequence[QuotaChange], image: MetadataImage, resolved: Collection[str]
) -> Sequence[ClientQuotaRecord]:
    """The records that differ from what is set. `resolved` are the host names that were found to have an address."""
    entity = _entity(parts)
    keys = _keys_of(entity, resolved)
    current = image.client_quotas.get(entity, {})
    records = []
    seen = set()
    for change in changes:
        if change.key in seen:
            raise _invalid(f"Duplicate quota key {change.key} in one entry")
        seen.add(change.key)
        if change.value is not None:
            kind = keys.get(change.key)
            if kind is None:
                raise _invalid(f"Invalid configuration key {change.key}")
            _check_value(change.key, kind, change.value)
        if current.get(change.key) != change.value:
            records.append(ClientQuotaRecord(entity, change.key, change.value))
    return records


def hosts_to_resolve(entities: Sequence[EntityParts]) -> set[str]:
    """The names of `ip` entities that are no addresses."""
    return {
        name for parts in entities for kind, name in parts if kind == IP and name and canonical_address(name) is None
    }


def _entity(parts: EntityParts) -> QuotaEntity:
    """Sorted by type. A type that is named twice counts as it was named last, as in Apache Kafka 4.3."""
    if not parts:
        raise _invalid("Invalid empty client quota entity")
    named = dict(parts)
    for kind, name in named.items():
        if kind not in ENTITY_TYPES:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    return tuple(sorted(named.items()))


def _keys_of(entity: QuotaEntity, resolved: Collection[str]) -> Mapping[str, Type]:
    named = dict(entity)
    if IP not in named:
        return _USER_KEYS
    if len(named) > 1:
        raise _invalid("Invalid quota entity combination, IP entity should not be combined with User or ClientId")
    name = named[IP]
    if name is not None and canonical_address(name) is None and name not in resolved:
        raise _invalid(f"{name} is not a valid IP or resolvable host.")
    return _IP_KEYS


def _check_value(key: str, kind: Type, value: float) -> None:
    if not value > 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    largest = _LARGEST.get(kind)
    if largest is None:
        if math.isinf(value):
            raise _invalid(f"Quota {key} must be a finite number")
        return
    if value > largest:
        raise _invalid(f"Proposed value for {key} is too large for {'an INT' if kind is Type.INT else 'a LONG'}.")
    if value - math.floor(value) > _FRACTION_MAX:
        raise _invalid(f"{key} cannot be a fractional value.")


class Match(IntEnum):
    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


@dataclass(frozen=True, slots=True)
class Component:
    entity_type: str
    match_type: int
    match: str | None


def describe_quotas(
    components: Sequence[Component], strict: bool, image: MetadataImage
) -> Sequence[tuple[QuotaEntity, Mapping[str, float]]]:
    """The entities that every component matches; with `strict` those that have no other types."""
    names, types = _filter(components)
    found = []
    for entity, values in image.client_quotas.items():
        named = dict(entity)
        if strict and len(named) != len(components):
            continue
        if all(kind in named for kind in types) and all(
            kind in named and named[kind] == name for kind, name in names.items()
        ):
            found.append((entity, values))
    return sorted(found, key=lambda item: [(kind, name is not None, name or "") for kind, name in item[0]])


def _filter(components: Sequence[Component]) -> tuple[dict[str, str | None], set[str]]:
    names: dict[str, str | None] = {}
    types: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind in names or kind in types:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in ENTITY_TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        _check_match(component)
        if component.match_type == Match.SPECIFIED:
            types.add(kind)
        else:
            names[kind] = component.match
    asked = names.keys() | types
    if IP in asked and len(asked) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )
    return names, types


def _check_match(component: Component) -> None:
    match component.match_type:
        case Match.EXACT:
            if component.match is None:
                raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        case Match.DEFAULT | Match.SPECIFIED:
            if component.match is not None:
                name = Match(component.match_type).name
                raise _invalid(f"Request specified MATCH_TYPE_{name}, but also specified a match string.")
        case _:
            raise _invalid(f"Unknown match type {component.match_type}")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
