"""What a client without permissions sees of each API, and what single permissions change.

Clients are told apart by their address: 127.0.0.1 may do everything, a guest from 127.0.0.2 has what a step gives it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from tests.integration.differential.play import Play
from tests.integration.differential.scripts.access_requests import (
    ALL,
    ALLOW,
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CREATE,
    DELETE,
    DENY,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    GUEST,
    IDEMPOTENT_WRITE,
    KNOWN,
    LITERAL,
    MATCH,
    MISSING,
    NOW_MS,
    OWNER,
    PREFIXED,
    READ,
    THE_CLUSTER,
    TOPIC,
    TRANSACTION,
    WRITE,
    Ask,
    Permission,
    acl,
    any_acl,
    cluster_asked,
    groups_asked,
    list_offsets,
    metadata,
    producer,
    topics_asked,
)
from tests.integration.differential.scripts.batches import Batch
from tests.integration.differential.scripts.records import produce_fields
from tests.integration.differential.scripts.topics import TIMEOUT_MS, new
from tests.support.processes.clients.wire_client import CLOSED, ConnectionEnded, Plain, WireClient, trimmed

PROPERTIES: Mapping[str, str] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}

KEPT = {
    "error_code",
    "name",
    "topic",
    "topic_name",
    "group_id",
    "key",
    "partition_index",
    "partition",
    "index",
    "topic_config_error_code",
    "topic_authorized_operations",
    "cluster_authorized_operations",
    "authorized_operations",
    "resource_name",
    "resource_type",
    "num_partitions",
    "group_state",
    "node_id",
    "endpoint_type",
}
"""Fields that are compared: other suites compare the answers that clients with all permissions get."""

NOT_KEPT = {"configs", "brokers", "entity", "nodes", "observers"}
"""Lists that are not compared."""


def close(on: Play) -> None:
    """Let the owner do everything and the guest nothing, and make a topic and a group's coordinator."""
    everything = [(TOPIC, "*", ALL), (GROUP, "*", ALL), (TRANSACTION, "*", ALL), (CLUSTER, THE_CLUSTER, ALL)]
    on.quietly("create_topics", 7, topics=[new(KNOWN)], timeout=TIMEOUT_MS, validate_only=False)
    on.quietly("create_acls", 3, creations=[acl(each, host=OWNER) for each in everything])
    on.until(lambda: _seen(on) == len(everything))
    on.until(lambda: _coordinator(on) == "none")
    on.until(lambda: on.quietly("init_producer_id", 4, **producer(None))["error_code"] == "none")
    on.until(lambda: "none" in str(on.quietly("list_offsets", 6, **list_offsets(KNOWN))["topics"]))


def _seen(on: Play) -> int:
    found = on.quietly("describe_acls", 3, **any_acl())
    return sum(len(each["acls"]) for each in found["resources"])


def _coordinator(on: Play) -> Plain:
    found = on.quietly("find_coordinator", 4, key_type=0, coordinator_keys=["g"])
    return found["coordinators"][0]["error_code"]


@contextmanager
def given(on: Play, *permissions: Permission, pattern: int = LITERAL, kind: int = ALLOW) -> Iterator[None]:
    """Give the guest these permissions for a while."""
    before = _seen(on)
    creations = [acl(each, pattern=pattern, kind=kind) for each in permissions]
    on.quietly("create_acls", 3, creations=creations)
    on.until(lambda: _seen(on) == before + len(permissions))
    yield
    on.quietly("delete_acls", 3, filters=[any_acl(host_filter=GUEST)])
    on.until(lambda: _seen(on) == before)


class Guest:
    """Asks from another address, and notes the part of the answers that permissions decide."""

    def __init__(self, on: Play) -> None:
        self._on = on
        self._client: WireClient | None = None

    def ask(self, step: str, api: str, version: int, /, **fields: Plain) -> None:
        if self._client is None:
            self._client = self._on.open(source=GUEST)
        answer: Plain = CLOSED
        try:
            answer = self._client.ask(api, version, **trimmed(api, version, fields))
        except ConnectionEnded:
            self.close()
        self._on.note(f"{step}: {api} v{version}", told(answer))

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def by_guest(ask: Callable[[Play, Guest], None]) -> Callable[[Play], None]:
    """A sequence that a guest plays, with a connection of its own."""

    def played(on: Play) -> None:
        guest = Guest(on)
        try:
            ask(on, guest)
        finally:
            guest.close()

    played.__doc__ = ask.__doc__
    return played


def told(answer: Plain) -> Plain:
    if isinstance(answer, dict):
        return {
            key: told(value)
            for key, value in answer.items()
            if key in KEPT or (isinstance(value, list | dict) and key not in NOT_KEPT)
        }
    if isinstance(answer, list):
        return sorted((told(each) for each in answer if isinstance(each, dict)), key=str)
    return answer


def _asking(asks: Callable[[], list[Ask]]) -> Callable[[Play], None]:
    @by_guest
    def denied(on: Play, guest: Guest) -> None:
        for step, api, version, fields in asks():
            guest.ask(step, api, version, **fields)

    return denied


topics_denied = _asking(topics_asked)
groups_denied = _asking(groups_asked)
cluster_denied = _asking(cluster_asked)

_TOPIC_OPERATIONS = {
    "read": READ,
    "write": WRITE,
    "create": CREATE,
    "delete": DELETE,
    "alter": ALTER,
    "describe": DESCRIBE,
    "describe configs": DESCRIBE_CONFIGS,
    "alter configs": ALTER_CONFIGS,
}


@by_guest
def topic_permissions(on: Play, guest: Guest) -> None:
    """Each operation on one topic by itself; the others stay denied or hidden."""
    for operation, number in _TOPIC_OPERATIONS.items():
        with given(on, (TOPIC, KNOWN, number), (TOPIC, MISSING, number)):
            for step, api, version, fields in _few_topics_asked():
                guest.ask(f"{operation}, {step}", api, version, **fields)


def _few_topics_asked() -> Sequence[Ask]:
    wanted = {"produce": 9, "fetch": 12, "list_offsets": 7, "offset_for_leader_epoch": 4, "describe_producers": 0}
    wanted |= {"metadata": 9, "describe_topic_partitions": 0, "delete_records": 2}
    cluster = ("create_partitions", "describe_configs", "incremental_alter_configs", "delete_topics")
    asked = [each for each in topics_asked() if wanted.get(each[1]) == each[2] and each[0] != "in a transaction"]
    return asked + [each for each in cluster_asked() if each[1] in cluster or each[1] == "init_producer_id"]


@by_guest
def group_permissions(on: Play, guest: Guest) -> None:
    some: Sequence[str] = (
        "find_coordinator",
        "offset_commit",
        "offset_fetch",
        "heartbeat",
        "describe_groups",
        "delete_groups",
    )
    some = (*some, "offset_delete", "list_groups", "consumer_group_heartbeat", "leave_group")
    asked = [each for each in groups_asked() if each[1] in some]
    for operation, number in {"read": READ, "delete": DELETE, "describe": DESCRIBE}.items():
        groups = [(GROUP, name, number) for name in ("g", "g2", "g3")]
        with given(on, *groups):
            for step, api, version, fields in asked:
                guest.ask(f"{operation}, {step}", api, version, **fields)
    with given(on, (GROUP, "g", READ), (TOPIC, KNOWN, READ)):
        for step, api, version, fields in asked:
            guest.ask(f"both, {step}", api, version, **fields)


@by_guest
def cluster_permissions(on: Play, guest: Guest) -> None:
    operations = {
        "create": CREATE,
        "delete": DELETE,
        "alter": ALTER,
        "describe": DESCRIBE,
        "describe configs": DESCRIBE_CONFIGS,
        "alter configs": ALTER_CONFIGS,
        "idempotent write": IDEMPOTENT_WRITE,
    }
    unsafe = ("create_acls", "unregister_broker")
    asked = [each for each in cluster_asked() if each[1] not in unsafe]
    asked += [each for each in topics_asked() if each[1] == "metadata" and each[2] == 9]
    asked += [each for each in groups_asked() if each[1] == "list_groups"]
    for operation, number in operations.items():
        with given(on, (CLUSTER, THE_CLUSTER, number)):
            for step, api, version, fields in asked:
                guest.ask(f"{operation}, {step}", api, version, **fields)


@by_guest
def patterns_and_denials(on: Play, guest: Guest) -> None:
    produced = produce_fields(KNOWN, Batch(NOW_MS).encode())

    def ask(step: str) -> None:
        guest.ask(step, "produce", 9, **produced)
        guest.ask(step, "metadata", 9, **metadata(KNOWN))

    with given(on, (TOPIC, "kn", WRITE), pattern=PREFIXED):
        ask("by prefix")
    with given(on, (TOPIC, "*", WRITE)):
        ask("every topic")
    with given(on, (TOPIC, "*", WRITE), pattern=PREFIXED):
        ask("topics that begin with an asterisk")
    with given(on, (TOPIC, KNOWN, ALL)):
        ask("all operations")
        with given_more(on, acl((TOPIC, "k", WRITE), pattern=PREFIXED, kind=DENY)):
            ask("all operations, but writing is denied")
        with given_more(on, acl((TOPIC, KNOWN, DESCRIBE), kind=DENY)):
            ask("all operations, but describing is denied")
        with given_more(on, acl((TOPIC, "*", ALL), kind=DENY)):
            ask("all operations, but all are denied on every topic")


@contextmanager
def given_more(on: Play, binding: Plain) -> Iterator[None]:
    before = _seen(on)
    on.quietly("create_acls", 3, creations=[binding])
    on.until(lambda: _seen(on) == before + 1)
    yield
    on.quietly("delete_acls", 3, filters=[any_acl(host_filter=GUEST, permission_type=DENY)])
    on.until(lambda: _seen(on) == before)


def acls_made(on: Play) -> None:
    """Creation, filters and deletion of ACLs by the owner."""
    one = acl((TOPIC, "orders", READ), host="10.0.0.1")
    odd: Mapping[str, Plain] = {
        "cluster with another name": {"resource_type": CLUSTER},
        "without a name": {"resource_name": ""},
        "any type": {"resource_type": 1},
        "unknown type": {"resource_type": 99},
        "match": {"resource_pattern_type": MATCH},
        "any operation": {"operation": 1},
        "unknown operation": {"operation": 99},
        "any permission": {"permission_type": 1},
        "principal without a colon": {"principal": "alice"},
        "principal of another type": {"principal": "Group:alice"},
        "odd host": {"host": "no.such.host"},
        "an operation that the type does not have": {"operation": IDEMPOTENT_WRITE},
        "type 0": {"resource_type": 0},
        "pattern 0": {"resource_pattern_type": 0},
        "operation 0": {"operation": 0},
        "permission 0": {"permission_type": 0},
    }
    for step, change in odd.items():
        on.ask(f"made: {step}", "create_acls", 3, creations=[one | change, one])
    on.ask("made again", "create_acls", 1, creations=[one, one])
    on.ask(
        "more made",
        "create_acls",
        2,
        creations=[
            one | {"resource_name": "or", "resource_pattern_type": PREFIXED},
            one | {"resource_name": "*"},
            one | {"resource_name": "other", "operation": ALL, "permission_type": DENY},
        ],
    )
    here: dict[str, Plain] = {"host_filter": "10.0.0.1"}
    on.until(lambda: len(on.quietly("describe_acls", 3, **any_acl(**here))["resources"]) >= 4)
    filters: Mapping[str, dict[str, Plain]] = {
        "all": {},
        "match": {"pattern_type_filter": MATCH, "resource_name_filter": "orders"},
        "match without a name": {"pattern_type_filter": MATCH},
        "literal": {"pattern_type_filter": LITERAL, "resource_name_filter": "orders"},
        "prefixed": {"pattern_type_filter": PREFIXED},
        "any pattern of a name": {"resource_name_filter": "or"},
        "operation all": {"operation": ALL},
        "denied": {"permission_type": DENY},
        "other principal": {"principal_filter": "User:*"},
        "pattern 0": {"pattern_type_filter": 0},
        "unknown type": {"resource_type_filter": 99},
        "unknown pattern": {"pattern_type_filter": 99},
    }
    for step, change in filters.items():
        answer = on.quietly("describe_acls", 3, **any_acl(**here, **change))
        on.note(f"described: {step}", answer if answer == CLOSED else _sorted(answer))
    for step, change in filters.items():
        if step not in ("all", "unknown type", "unknown pattern"):
            answer = on.quietly("delete_acls", 3, filters=[any_acl(**here, **change), any_acl(host_filter="nowhere")])
            on.note(f"deleted: {step}", answer if answer == CLOSED else _sorted(answer))
    on.quietly("delete_acls", 3, filters=[any_acl(**here), any_acl(host_filter="no.such.host")])
    on.until(lambda: not on.quietly("describe_acls", 3, **any_acl(**here))["resources"])


def _sorted(answer: Plain) -> Plain:
    """The lists in an order of their own: their order in an answer is open."""
    if isinstance(answer, dict):
        return {key: _sorted(value) for key, value in answer.items()}
    if isinstance(answer, list):
        return sorted(map(_sorted, answer), key=str)
    return answer
