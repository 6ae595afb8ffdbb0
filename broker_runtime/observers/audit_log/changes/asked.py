"""The resources that a request changes, each with its rows of the table `change`. Pure.

`resources` yields them in the order of the request. The rows of a resource are computed when they are iterated over,
because a long request has rows for some of its resources only.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from broker_runtime.observers.audit_log.changes.values import (
    RESOURCE_TYPES,
    SENSITIVE,
    TOPIC,
    cut,
    shown_value,
)
from broker_runtime.observers.surroundings import MetadataBefore
from broker_runtime.security.acls.model import AclOperation, AclPattern, AclPermission, AclResource
from broker_runtime.wire import versions
from kafka_bytes import own_keys

Identity = Hashable
"""The names by which an answer identifies a resource."""

EVERYTHING: Final = None
"""The identity in a request that names no resource, and means all of them."""


QuotaEntity = tuple[tuple[str, str | None], ...]
"""A client quota's entity: (entity type, name) pairs sorted by type.

A name of None is the default entity of its type.
"""


class Row(NamedTuple):
    """One row of the table of changes, in the order of its columns.

    A value is None if it does not exist or is unknown.
    """

    resource_type: str
    resource_name: str | None
    key: str | None
    operation: str
    old_value: str | None
    new_value: str | None
    topic: str | None


Resource = tuple[Identity, Iterator[Row]]


class Seen(NamedTuple):
    """The metadata at the arrival of a request, and how users and addresses are shown in rows."""

    before: MetadataBefore
    shown: Callable[[str], str]


def resources(api_key: int, request: Any, seen: Seen) -> Iterator[Resource]:
    """Yield the resources of a request that was read, of an API of `API_KEYS`."""
    yield from _BY_API[api_key](request, seen)


def _create_topics(request: Any, _: Seen) -> Iterator[Resource]:
    for topic in request.topics:
        yield topic.name, _created(topic)


def _created(topic: Any) -> Iterator[Row]:
    name = cut(topic.name)
    if topic.assignments:
        asked = f"partitions={len(topic.assignments)}, with assigned replicas"
    else:
        asked = f"partitions={_or_default(topic.num_partitions)}, replicas={_or_default(topic.replication_factor)}"
    yield Row("topic", name, None, "create", None, asked, name)
    for config in topic.configs:
        value = shown_value(TOPIC, config.name, config.value)
        yield Row("topic", name, cut(config.name), "set", None, value, name)


def _or_default(number: int) -> str:
    return "default" if number == -1 else str(number)


def _delete_topics(request: Any, seen: Seen) -> Iterator[Resource]:
    if hasattr(request, "topic_names"):
        for name in request.topic_names:
            yield name, _deleted(name, seen)
        return
    for topic in request.topics:
        if topic.name is not None:
            yield topic.name, _deleted(topic.name, seen)
        else:
            yield topic.topic_id, _deleted(seen.before.topic_name(topic.topic_id), seen, topic.topic_id)


def _deleted(name: str | None, seen: Seen, topic_id: object = None) -> Iterator[Row]:
    count = None if name is None else seen.before.partitions(name)
    old = None if count is None else f"partitions={count}"
    name = name if name is None else cut(name)
    yield Row("topic", name if topic_id is None or name else f"id {topic_id}", None, "delete", old, None, name)


def _create_partitions(request: Any, seen: Seen) -> Iterator[Resource]:
    def rows(topic: Any) -> Iterator[Row]:
        count = seen.before.partitions(topic.name)
        old = None if count is None else str(count)
        yield Row("topic", cut(topic.name), "partitions", "set", old, str(topic.count), cut(topic.name))

    for topic in request.topics:
        yield topic.name, rows(topic)


def _delete_records(request: Any, _: Seen) -> Iterator[Resource]:
    for topic in request.topics:
        for asked in topic.partitions:
            row = _of_partition(topic.name, asked.partition_index, "records", "delete", None, f"below {asked.offset}")
            yield (topic.name, asked.partition_index), row


def _of_partition(
    topic: str, index: int, key: str | None, operation: str, old: str | None, new: str | None
) -> Iterator[Row]:
    yield Row("partition", f"{cut(topic)}-{index}", key, operation, old, new, cut(topic))


def _create_acls(request: Any, seen: Seen) -> Iterator[Resource]:
    def rows(acl: Any) -> Iterator[Row]:
        kind, name, pattern = acl.resource_type, acl.resource_name, acl.resource_pattern_type
        value = _acl_value(acl.permission_type, acl.operation, acl.host, seen)
        yield Row(
            "acl", _acl_name(kind, pattern, name), seen.shown(acl.principal), "create", None, value, _topic(kind, name)
        )

    for number, acl in enumerate(request.creations):
        yield number, rows(acl)


def _delete_acls(request: Any, seen: Seen) -> Iterator[Resource]:
    def rows(acl: Any) -> Iterator[Row]:
        kind, name, pattern = acl.resource_type_filter, acl.resource_name_filter, acl.pattern_type_filter
        value = _acl_value(acl.permission_type, acl.operation, acl.host_filter, seen)
        who = "any principal" if acl.principal_filter is None else seen.shown(acl.principal_filter)
        yield Row("acl", _acl_name(kind, pattern, name), who, "delete", value, None, _topic(kind, name))

    for number, acl in enumerate(request.filters):
        yield number, rows(acl)


def _acl_name(kind: int, pattern: int, name: str | None) -> str:
    return f"{_named(AclResource, kind)}:{_named(AclPattern, pattern)}:{'any name' if name is None else cut(name)}"


def _acl_value(permission: int, operation: int, host: str | None, seen: Seen) -> str:
    where = "any host" if host is None or host == "*" else seen.shown(host)
    return f"{_named(AclPermission, permission)} {_named(AclOperation, operation)} from {where}"


def _named(kind: Any, number: int) -> str:
    try:
        return str(kind(number).name)
    except ValueError:
        return str(number)


def _topic(kind: int, name: str | None) -> str | None:
    return cut(name) if kind == AclResource.TOPIC and name is not None else None


def _alter_configs(request: Any, seen: Seen) -> Iterator[Resource]:
    for resource in request.resources:
        yield (resource.resource_type, resource.resource_name), _replaced(resource, seen)


def _replaced(resource: Any, seen: Seen) -> Iterator[Row]:
    """Yield all keys of a configuration that is replaced as a whole: those that it does not name are removed."""
    kind, name = resource.resource_type, resource.resource_name
    before = seen.before.configs(kind, name)
    named = {config.name: config.value for config in resource.configs}
    if not named and not before:
        yield _config_row(kind, name, None, "set", before, None)
    for key, value in named.items():
        yield _config_row(kind, name, key, "set", before, value)
    for key in before:
        if key not in named:
            yield _config_row(kind, name, key, "delete", before, None)


_CONFIG_OPERATIONS: Final = {0: "set", 1: "delete", 2: "append", 3: "subtract"}


def _incremental_alter_configs(request: Any, seen: Seen) -> Iterator[Resource]:
    def rows(resource: Any) -> Iterator[Row]:
        kind, name = resource.resource_type, resource.resource_name
        before = seen.before.configs(kind, name)
        if not resource.configs:
            yield _config_row(kind, name, None, "set", before, None)
        for config in resource.configs:
            operation = _CONFIG_OPERATIONS.get(config.config_operation, str(config.config_operation))
            yield _config_row(kind, name, config.name, operation, before, config.value)

    for resource in request.resources:
        yield (resource.resource_type, resource.resource_name), rows(resource)


def _config_row(
    kind: int, name: str, key: str | None, operation: str, before: Mapping[str, str], value: str | None
) -> Row:
    old = None if key is None else shown_value(kind, key, before.get(key))
    new = None if key is None or operation == "delete" else shown_value(kind, key, value)
    topic = cut(name) if kind == TOPIC else None
    shown_key = None if key is None else cut(key)
    return Row(RESOURCE_TYPES.get(kind, f"resource type {kind}"), cut(name), shown_key, operation, old, new, topic)


def _alter_replica_log_dirs(request: Any, _: Seen) -> Iterator[Resource]:
    for folder in request.dirs:
        for topic in folder.topics:
            for index in topic.partitions:
                row = _of_partition(topic.name, index, "log dir", "set", None, cut(folder.path))
                yield (topic.name, index), row


def _elect_leaders(request: Any, _: Seen) -> Iterator[Resource]:
    kind = {0: "preferred", 1: "unclean"}.get(getattr(request, "election_type", 0), "unknown")
    if request.topic_partitions is None:
        yield EVERYTHING, iter([Row("cluster", None, "leaders", "elect", None, kind, None)])
        return
    for topic in request.topic_partitions:
        for index in topic.partitions:
            yield (topic.topic, index), _of_partition(topic.topic, index, "leader", "elect", None, kind)


def _alter_partition_reassignments(request: Any, seen: Seen) -> Iterator[Resource]:
    def rows(topic: str, asked: Any) -> Iterator[Row]:
        index, wanted = asked.partition_index, asked.replicas
        old = _replicas(seen.before.replicas(topic, index))
        operation = "cancel" if wanted is None else "set"
        yield from _of_partition(topic, index, "replicas", operation, old, _replicas(wanted))

    for topic in request.topics:
        for asked in topic.partitions:
            yield (topic.name, asked.partition_index), rows(topic.name, asked)


def _replicas(ids: Any) -> str | None:
    return None if ids is None else cut(",".join(map(str, islice(ids, 200))))


def _alter_client_quotas(request: Any, seen: Seen) -> Iterator[Resource]:
    for entry in request.entries:
        entity = quota_entity(entry.entity)
        yield entity, _quota_rows(entity, entry.ops, seen)


def quota_entity(parts: Iterable[Any]) -> QuotaEntity:
    """Return the entity of a request or an answer about client quotas."""
    return tuple(sorted(((part.entity_type, part.entity_name) for part in parts), key=lambda part: part[0]))


def _quota_rows(entity: QuotaEntity, ops: Any, seen: Seen) -> Iterator[Row]:
    name = cut(", ".join(f"{kind}={_quota_name(kind, name, seen)}" for kind, name in entity))
    if not ops:
        yield Row("client quota", name, None, "set", None, None, None)
    for op in ops:
        before = seen.before.quota(entity, op.key)
        old, new = None if before is None else _number(before), None if op.remove else _number(op.value)
        yield Row("client quota", name, cut(op.key), "delete" if op.remove else "set", old, new, None)


def _quota_name(kind: str, name: str | None, seen: Seen) -> str:
    if name is None:
        return "<default>"
    return seen.shown(name) if kind in ("user", "ip") else name


def _number(value: float) -> str:
    return f"{value:.17g}"


def _alter_user_scram_credentials(request: Any, seen: Seen) -> Iterator[Resource]:
    def rows(user: Any, *, is_deleted: bool) -> Iterator[Row]:
        mechanism = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}.get(user.mechanism, f"mechanism {user.mechanism}")
        operation, new = ("delete", None) if is_deleted else ("set", SENSITIVE)
        yield Row("user", cut(seen.shown(user.name)), mechanism, operation, None, new, None)

    for user in request.deletions:
        yield user.name, rows(user, is_deleted=True)
    for user in request.upsertions:
        yield user.name, rows(user, is_deleted=False)


def _update_features(request: Any, seen: Seen) -> Iterator[Resource]:
    for update in request.feature_updates:
        level = seen.before.feature(update.feature)
        old, new = None if level is None else str(level), str(update.max_version_level)
        yield update.feature, iter([Row("feature", cut(update.feature), "level", "set", old, new, None)])


def _unregister_broker(request: Any, _: Seen) -> Iterator[Resource]:
    broker_id = request.broker_id
    yield broker_id, iter([Row("broker", str(broker_id), None, "unregister", None, None, None)])


def _accept_log_loss(request: Any, _: Seen) -> Iterator[Resource]:
    offsets = f"offsets {request.first_offset} to {request.next_offset - 1}"
    row = _of_partition(request.topic, request.partition, "records", "accept loss", offsets, None)
    yield (request.topic, request.partition), row


def _delete_groups(request: "GroupsAsked", _: Seen) -> Iterator[Resource]:
    for name in request.names:
        yield name, iter([Row("group", cut(name), None, "delete", None, None, None)])


def _offset_delete(request: "OffsetsAsked", _: Seen) -> Iterator[Resource]:
    group = cut(request.group_id)
    for topic, index in request.partitions:
        place = f"{cut(topic)}-{index}"
        yield (topic, index), iter([Row("group", group, place, "delete offset", None, None, cut(topic))])


class GroupsAsked(NamedTuple):
    """The groups of a DeleteGroups request, or the first of them."""

    names: list[str]


class OffsetsAsked(NamedTuple):
    """The partitions of an OffsetDelete request, or the first of them."""

    group_id: str
    partitions: list[tuple[str, int]]


_BY_API: Final[Mapping[int, Callable[[Any, Seen], Iterator[Resource]]]] = {
    versions.CREATE_TOPICS: _create_topics,
    versions.DELETE_TOPICS: _delete_topics,
    versions.DELETE_RECORDS: _delete_records,
    versions.CREATE_ACLS: _create_acls,
    versions.DELETE_ACLS: _delete_acls,
    versions.ALTER_CONFIGS: _alter_configs,
    versions.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    versions.CREATE_PARTITIONS: _create_partitions,
    versions.DELETE_GROUPS: _delete_groups,
    versions.ELECT_LEADERS: _elect_leaders,
    versions.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    versions.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
    versions.OFFSET_DELETE: _offset_delete,
    versions.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    versions.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    versions.UPDATE_FEATURES: _update_features,
    versions.UNREGISTER_BROKER: _unregister_broker,
    own_keys.ACCEPT_LOG_LOSS: _accept_log_loss,
}
API_KEYS: Final = frozenset(_BY_API)
"""The APIs whose requests are read for changes. Brokers serve no others that change something."""
