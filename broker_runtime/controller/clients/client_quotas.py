"""Validate changes of client quotas (KIP-546, KIP-612 as shipped). Pure.

Brokers enforce the quotas of users and client ids (`client_quotas`), of `ip` entities and of connection groups. An `ip`
may be a host name: the caller checks whether it resolves (`hosts_to_resolve`).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from broker_runtime.config import INT_MAX, LONG_MAX, Type
from broker_runtime.config.declaring.addresses import canonical_address
from broker_runtime.controller.clients.connection_groups import (
    check_cluster_wide,
    check_flag,
    check_member,
    check_member_number,
    check_name,
)
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.connection_groups import (
    CLUSTER_KEY,
    MAX_CONNECTIONS_KEY,
    OBSERVE_KEY,
    SHARED_KEY,
)
from broker_runtime.metadata.areas.quotas import (
    CONNECTION_GROUP,
    IP,
    IP_RATE_KEY,
    MEMBER_KEY,
    ClientQuotaRecord,
    QuotaEntity,
)
from broker_runtime.metadata.describe_quotas import ENTITY_TYPES
from broker_runtime.metadata.image import MetadataImage

_USER_KEYS: Mapping[str, Type] = {
    "producer_byte_rate": Type.LONG,
    "consumer_byte_rate": Type.LONG,
    "request_percentage": Type.DOUBLE,
    "controller_mutation_rate": Type.DOUBLE,
}
_IP_KEYS: Mapping[str, Type] = {IP_RATE_KEY: Type.INT}
_GROUP_KEYS: Mapping[str, Type] = {
    IP_RATE_KEY: Type.INT,
    MAX_CONNECTIONS_KEY: Type.INT,
    SHARED_KEY: Type.BOOLEAN,
    OBSERVE_KEY: Type.BOOLEAN,
    CLUSTER_KEY: Type.BOOLEAN,
}
_MEMBER_KEYS: Mapping[str, Type] = {MEMBER_KEY: Type.DOUBLE}
_LARGEST = {Type.INT: INT_MAX, Type.LONG: LONG_MAX}
_SMALLEST: Mapping[Type, float] = {Type.INT: 1, Type.LONG: 1, Type.DOUBLE: 0.001}
"""Smallest values that count: Apache Kafka accepts 5e-324 for a rate of connections, and then enforces a rate of 0."""
_FRACTION_MAX = 1e-6


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """One change of a quota. A `value` of None removes the quota."""

    key: str
    value: float | None


EntityParts = Sequence[tuple[str, str | None]]
"""The parts of an entity: (type, name) pairs as in a request. A name of None is the default entity."""


def alter_quotas(
    parts: EntityParts, changes: Sequence[QuotaChange], image: MetadataImage, resolved: Collection[str]
) -> Sequence[ClientQuotaRecord]:
    """Return the records for quotas whose values change. `resolved` are the host names that resolve to an address."""
    entity = _entity(parts)
    keys = _keys_of(entity, resolved)
    current = _current(entity, image)
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
    if records and keys is _GROUP_KEYS:
        check_cluster_wide({**current, **{record.key: record.value for record in records}})
    return records


def _current(entity: QuotaEntity, image: MetadataImage) -> Mapping[str, float]:
    kind, name = entity[0]
    if kind != CONNECTION_GROUP:
        return image.quotas.get(entity, {})
    group = None if name is None else image.connection_groups.get(name)
    if group is None:
        return {}
    if len(entity) == 1:
        return group.keys
    number = group.members.get(entity[1][1] or "")
    return {} if number is None else {MEMBER_KEY: number}


def hosts_to_resolve(entities: Sequence[EntityParts]) -> set[str]:
    """Return the names of `ip` entities that are not addresses.

    A member of a connection group is never a host name.
    """
    return {
        name
        for parts in entities
        if not any(kind == CONNECTION_GROUP for kind, _ in parts)
        for kind, name in parts
        if kind == IP and name and canonical_address(name) is None
    }


def _entity(parts: EntityParts) -> QuotaEntity:
    """Return the entity, sorted by type. If a type is named twice, the last name counts, as in Apache Kafka 4.3."""
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
    if CONNECTION_GROUP in named:
        return _keys_of_group(named)
    if IP not in named:
        return _USER_KEYS
    if len(named) > 1:
        raise _invalid("Invalid quota entity combination, IP entity should not be combined with User or ClientId")
    name = named[IP]
    if name is not None and canonical_address(name) is None and name not in resolved:
        raise _invalid(f"{name} is not a valid IP or resolvable host.")
    return _IP_KEYS


def _keys_of_group(named: Mapping[str, str | None]) -> Mapping[str, Type]:
    if not named.keys() <= {CONNECTION_GROUP, IP}:
        raise _invalid("Invalid quota entity combination, a connection-group should only be combined with an ip")
    check_name(named[CONNECTION_GROUP])
    if IP not in named:
        return _GROUP_KEYS
    check_member(named[IP])
    return _MEMBER_KEYS


def _check_value(key: str, kind: Type, value: float) -> None:
    if key == MEMBER_KEY:
        check_member_number(value)
        return
    if kind is Type.BOOLEAN:
        check_flag(key, value)
        return
    if not value > 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    largest = _LARGEST.get(kind)
    if largest is None:
        if math.isinf(value):
            raise _invalid(f"Quota {key} must be a finite number")
    elif value > largest:
        raise _invalid(f"Proposed value for {key} is too large for {'an INT' if kind is Type.INT else 'a LONG'}.")
    elif value - math.floor(value) > _FRACTION_MAX:
        raise _invalid(f"{key} cannot be a fractional value.")
    if value < _SMALLEST[kind]:
        raise _invalid(
            f"Quota {key} must be at least {_SMALLEST[kind]}, not {value}; remove the quota to have no limit"
        )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
