"""Describes client quotas (KIP-546): the entities that match a filter. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.quotas import CONNECTION_GROUP, IP, MEMBER_KEY, QuotaEntity
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.slicing.steps import Steps, in_order

USER, CLIENT_ID = "user", "client-id"
ENTITY_TYPES = (USER, CLIENT_ID, IP, CONNECTION_GROUP)
_COMPONENTS_MAX = 10

Described = tuple[QuotaEntity, Mapping[str, float]]


class Match(IntEnum):
    """The match types of DescribeClientQuotas (48)."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


@dataclass(frozen=True, slots=True)
class Component:
    """One condition of a filter of client quotas. `match` is a name with Match.EXACT, and None otherwise."""

    entity_type: str
    match_type: int
    match: str | None


def describe_quotas(components: Sequence[Component], strict: bool, image: MetadataImage) -> Steps[list[Described]]:
    """Return the entities that every component matches, in order; with `strict` only those without other types.

    The caller has to free the list in steps (`steps.let_go`): it may be long.
    Connection groups match only filters that name their type. So a client that does not know connection groups sees the
    same as in Apache Kafka, and does not mistake their members for `ip` entities. The image may change between two
    steps. Raises KafkaError.
    """
    names, types = _filter(components)
    if CONNECTION_GROUP in names or CONNECTION_GROUP in types:
        return (yield from _groups(names, types, strict, image))
    return (yield from _quotas(names, types, strict, image))


def _quotas(
    names: Mapping[str, str | None], types: Collection[str], strict: bool, image: MetadataImage
) -> Steps[list[Described]]:
    if strict and not types:
        # At most one entity matches, however many exist.
        entity = tuple(sorted(names.items()))
        return [(entity, image.quotas[entity])] if entity in image.quotas else []
    found: list[Described] = []
    # A list of the pairs would be ten thousands of new objects, made in one step.
    for entity in list(image.quotas):
        yield
        values = image.quotas.get(entity)
        if values is None:
            continue
        named = dict(entity)
        if strict and len(named) != len(names) + len(types):
            continue
        if all(kind in named for kind in types) and all(
            kind in named and named[kind] == name for kind, name in names.items()
        ):
            found.append((entity, values))
    return (yield from in_order(found, lambda item: [(kind, name is not None, name or "") for kind, name in item[0]]))


def _groups(
    names: Mapping[str, str | None], types: Collection[str], strict: bool, image: MetadataImage
) -> Steps[list[Described]]:
    """Each group, unless the filter requests members, and after it those of its members that match."""
    of_members = IP in names or IP in types
    found: list[Described] = []
    by_name = CONNECTION_GROUP in names
    asked = [names[CONNECTION_GROUP]] if by_name else (yield from in_order(list(image.connection_groups)))
    for name in asked:
        yield
        group = None if name is None else image.connection_groups.get(name)
        if group is None:
            continue
        entity = (CONNECTION_GROUP, name)
        if group.keys and not of_members:
            found.append(((entity,), dict(group.keys)))
        addresses: Sequence[str] = ()
        if IP in names:
            addresses = [names[IP] or ""]
        elif of_members or not strict:
            addresses = yield from in_order(list(group.members))
        for address in addresses:
            yield
            number = group.members.get(address)
            if number is not None:
                found.append(_member(entity, address, number))
    return found


def _member(group: tuple[str, str | None], member: str, number: float) -> Described:
    return (group, (IP, member)), {MEMBER_KEY: number}


def check_count(components: int) -> None:
    """Check the number of filter components in a request. Raises KafkaError."""
    if components > _COMPONENTS_MAX:
        raise _invalid(f"The filter has {components} components, but only {len(ENTITY_TYPES)} entity types exist.")


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
    if CONNECTION_GROUP in asked and not asked <= {CONNECTION_GROUP, IP}:
        raise _invalid("A connection-group filter component can only be used with an ip filter component.")
    if IP in asked and not asked <= {CONNECTION_GROUP, IP}:
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
