"""Find the quota of a caller: the most specific of eight levels, and the bucket that it shares with others. Pure.

Levels are not added up. From the most specific: (user, client id); (user, default client id); user; (default user,
client id); (default user, default client id); default user; client id; default client id. A default is a template:
each user or client id gets a bucket of its own. The quota of a user alone is shared by all client ids of the user, and
the quota of a client id alone by all users.

A caller without a client id has only the quotas of the user alone, as in Apache Kafka.
"""

from collections.abc import Mapping
from typing import NamedTuple

USER, CLIENT_ID = "user", "client-id"
"""Types of a client quota's entities."""

Entity = tuple[tuple[str, str | None], ...]
"""The entity of a client quota: (type, name) pairs sorted by type. A name of None is the default entity of its type."""
Entities = Mapping[Entity, Mapping[str, float]]
"""The quotas of each entity, by key."""
Caller = tuple[str, str]
"""The name of a caller's user, and the client id; empty for a caller without one."""
Bucket = tuple[str, str]
"""The user and the client id that share a bucket. An empty part stands for all."""


class Limit(NamedTuple):
    """The quota of a caller: its bucket, and the value of the quota."""

    bucket: Bucket
    quota: float


def limit_of(caller: Caller, key: str, entities: Entities) -> Limit | None:
    """Return the quota `key` of a caller; None for a caller without a limit."""
    user, client_id = caller
    if not client_id:
        return _first(((user, ""), _user(user)), ((user, ""), _user(None)), key=key, entities=entities)
    both, only_user, only_client = caller, (user, ""), ("", client_id)
    return _first(
        (both, _both(user, client_id)),
        (both, _both(user, None)),
        (only_user, _user(user)),
        (both, _both(None, client_id)),
        (both, _both(None, None)),
        (only_user, _user(None)),
        (only_client, ((CLIENT_ID, client_id),)),
        (only_client, ((CLIENT_ID, None),)),
        key=key,
        entities=entities,
    )


def _first(*levels: tuple[Bucket, Entity], key: str, entities: Entities) -> Limit | None:
    for bucket, entity in levels:
        quotas = entities.get(entity)
        if quotas is not None and key in quotas:
            return Limit(bucket, quotas[key])
    return None


def _both(user: str | None, client_id: str | None) -> Entity:
    return ((CLIENT_ID, client_id), (USER, user))


def _user(user: str | None) -> Entity:
    return ((USER, user),)
