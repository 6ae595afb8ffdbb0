"""What a client without permissions sees of each API, and what single permissions change.

Clients are told apart by their address: 127.0.0.1 may do everything, a guest from 127.0.0.2 has what a step gives it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from tests.integration.differential.play import Play
from tests.integration.differential.scripts.batches import Batch
from tests.integration.differential.scripts.records import produce_fields
from tests.integration.differential.scripts.topics import NOBODY, STRANGER, TIMEOUT_MS, new
from tests.support.processes.wire_client import CLOSED, ConnectionEnded, Plain, WireClient, trimmed

PROPERTIES: Mapping[str, str] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
OWNER, GUEST = "127.0.0.1", "127.0.0.2"
ANONYMOUS = "User:ANONYMOUS"
TOPIC, GROUP, CLUSTER, TRANSACTION = 2, 3, 4, 5
THE_CLUSTER = "kafka-cluster"
LITERAL, PREFIXED, MATCH, ANY = 3, 4, 2, 1
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, ACTION = 2, 3, 4, 5, 6, 7, 8, 9
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 10, 11, 12
DENY, ALLOW = 2, 3
TRANSACTIONAL = 16
NOW_MS = 1_700_000_000_000
KNOWN, MISSING, TEAM = "known", "missing", "team"
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

Permission = tuple[int, str, int]
"""Type and name of a resource, and an operation."""


def acl(permission: Permission, *, host: str = GUEST, pattern: int = LITERAL, kind: int = ALLOW) -> Plain:
    resource, name, operation = permission
    return {
        "resource_type": resource,
        "resource_name": name,
        "resource_pattern_type": pattern,
        "principal": ANONYMOUS,
        "host": host,
        "operation": operation,
        "permission_type": kind,
    }


def any_acl(**wanted: Plain) -> dict[str, Plain]:
    every = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    return every | wanted


def close(on: Play) -> None:
    """Let the owner do everything and the guest nothing, and make a topic and a group's coordinator."""
    everything = [(TOPIC, "*", ALL), (GROUP, "*", ALL), (TRANSACTION, "*", ALL), (CLUSTER, THE_CLUSTER, ALL)]
    on.quietly("create_topics", 7, topics=[new(KNOWN)], timeout=TIMEOUT_MS, validate_only=False)
    on.quietly("create_acls", 3, creations=[acl(each, host=OWNER) for each in everything])
    on.until(lambda: _seen(on) == len(everything))
    on.until(lambda: _coordinator(on) == "none")
    on.until(lambda: on.quietly("init_producer_id", 4, **_producer(None))["error_code"] == "none")
    on.until(lambda: "none" in str(on.quietly("list_offsets", 6, **_list_offsets(KNOWN))["topics"]))


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


def _list_offsets(*names: str) -> dict[str, Plain]:
    parts = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]
    return {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"name": name, "partitions": parts} for name in names],
    }


def _fetch(name: str, replica: int = -1) -> dict[str, Plain]:
    part = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1000,
    }
    return {
        "replica_id": replica,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1000,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": name, "partitions": [part]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }


def _offset_commit(*names: str) -> dict[str, Plain]:
    part = {"partition_index": 0, "committed_offset": 0, "committed_leader_epoch": -1, "committed_metadata": ""}
    return {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": name, "partitions": [part]} for name in names],
    }


def _offset_fetch(*names: str) -> dict[str, Plain]:
    topics = [{"name": name, "partition_indexes": [0]} for name in names] or None
    group = {"group_id": "g", "topics": topics, "member_id": None, "member_epoch": -1}
    return {"groups": [group], "require_stable": False}


def _metadata(*names: str, create: bool = False) -> dict[str, Plain]:
    return {
        "topics": [{"topic_id": NOBODY, "name": name} for name in names] if names else None,
        "allow_auto_topic_creation": create,
        "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": True,
    }


def _config(kind: int, name: str, key: str) -> Plain:
    change = {"name": key, "config_operation": 0, "value": "60000"}
    return {"resource_type": kind, "resource_name": name, "configs": [change]}


RESOURCES = [
    _config(2, KNOWN, "retention.ms"),
    _config(2, MISSING, "retention.ms"),
    _config(4, "1", "max.connections"),
]
RESOURCES += [_config(4, "", "max.connections"), _config(32, "g", "consumer.session.timeout.ms")]

Ask = tuple[str, str, int, dict[str, Plain]]


def _topics_asked() -> list[Ask]:
    by_epoch = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    both = [{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]} for name in (KNOWN, MISSING)]
    asked: list[Ask] = [
        ("known", "produce", 9, produce_fields(KNOWN, Batch(NOW_MS).encode())),
        ("known", "produce", 3, produce_fields(KNOWN, Batch(NOW_MS).encode())),
        ("missing", "produce", 9, produce_fields(MISSING, Batch(NOW_MS).encode())),
        ("in a transaction", "produce", 9, _in_transaction()),
        ("known", "fetch", 12, _fetch(KNOWN)),
        ("known", "fetch", 4, _fetch(KNOWN)),
        ("missing", "fetch", 12, _fetch(MISSING)),
        ("both", "list_offsets", 7, _list_offsets(KNOWN, MISSING)),
        (
            "both",
            "offset_for_leader_epoch",
            4,
            {"replica_id": -1, "topics": [{"topic": name, "partitions": [by_epoch]} for name in (KNOWN, MISSING)]},
        ),
        ("both", "delete_records", 2, {"topics": both, "timeout": TIMEOUT_MS}),
        (
            "both",
            "describe_producers",
            0,
            {"topics": [{"name": name, "partition_indexes": [0]} for name in (KNOWN, MISSING)]},
        ),
        ("named", "describe_topic_partitions", 0, _by_pieces(KNOWN, MISSING)),
        ("all", "describe_topic_partitions", 0, _by_pieces()),
    ]
    for version in (1, 8, 9, 12, 13):
        asked += [
            ("all", "metadata", version, _metadata()),
            ("both", "metadata", version, _metadata(KNOWN, MISSING)),
        ]
    asked += [
        ("to create", "metadata", 12, _metadata("created", create=True)),
        (
            "unknown id",
            "metadata",
            12,
            _metadata() | {"topics": [{"topic_id": STRANGER, "name": None}]},
        ),
    ]
    return asked


def _in_transaction() -> dict[str, Plain]:
    batch = Batch(NOW_MS, attributes=TRANSACTIONAL, producer_id=1, producer_epoch=0, base_sequence=0)
    return produce_fields(KNOWN, batch.encode()) | {"transactional_id": "x"}


def _by_pieces(*names: str) -> dict[str, Plain]:
    return {"topics": [{"name": name} for name in names], "response_partition_limit": 100, "cursor": None}


def _groups_asked() -> list[Ask]:
    join = {
        "group_id": "g",
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
        "reason": None,
    }
    member = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}
    sync = member | {"protocol_type": "consumer", "protocol_name": "range", "assignments": []}
    leave = {"group_id": "g", "member_id": "m", "members": [{"member_id": "m", "group_instance_id": None}]}
    new_member = {
        "group_id": "g2",
        "member_id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "member_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 10_000,
        "subscribed_topic_names": [KNOWN],
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [],
    }
    asked: list[Ask] = [
        ("group", "find_coordinator", 4, {"key_type": 0, "coordinator_keys": ["g"]}),
        ("group", "find_coordinator", 3, {"key_type": 0, "key": "g"}),
        ("transaction", "find_coordinator", 4, {"key_type": 1, "coordinator_keys": ["x"]}),
        ("both", "offset_commit", 8, _offset_commit(KNOWN, MISSING)),
        ("both", "offset_commit", 2, _offset_commit(KNOWN, MISSING) | {"retention_time_ms": -1}),
        ("both", "offset_fetch", 8, _offset_fetch(KNOWN, MISSING)),
        ("all", "offset_fetch", 8, _offset_fetch()),
        ("heartbeat", "heartbeat", 4, member),
        ("sync", "sync_group", 4, sync),
        ("leave", "leave_group", 4, leave),
        ("leave", "leave_group", 2, leave),
        ("groups", "describe_groups", 5, {"groups": ["g", "g3"], "include_authorized_operations": True}),
        ("groups", "describe_groups", 0, {"groups": ["g"]}),
        ("groups", "delete_groups", 2, {"groups_names": ["g3"]}),
        ("groups", "consumer_group_describe", 1, {"group_ids": ["g3"], "include_authorized_operations": True}),
        (
            "offsets",
            "offset_delete",
            0,
            {"group_id": "g", "topics": [{"name": KNOWN, "partitions": [{"partition_index": 0}]}]},
        ),
        ("all", "list_groups", 4, {"states_filter": []}),
        ("new member", "consumer_group_heartbeat", 1, new_member),
    ]
    asked += [("join", "join_group", version, join) for version in (0, 5, 9)]
    return asked


def _cluster_asked() -> list[Ask]:
    binding = acl((TOPIC, "other", READ))
    grown = {"count": 1, "assignments": None}
    partition = {"partition_index": 0, "replicas": [1]}
    keys = [{**each, "configuration_keys": None} for each in RESOURCES]
    ip = {"entity": [{"entity_type": "ip", "entity_name": "10.0.0.1"}], "ops": []}
    return [
        ("acls", "describe_acls", 3, any_acl()),
        ("acls", "create_acls", 3, {"creations": [binding, binding]}),
        ("acls", "delete_acls", 3, {"filters": [any_acl(resource_name_filter="nothing")]}),
        ("made", "create_topics", 7, {"topics": [new("fresh")], "timeout": TIMEOUT_MS, "validate_only": True}),
        (
            "named",
            "delete_topics",
            6,
            {"topics": [{"name": name, "topic_id": NOBODY} for name in (MISSING,)], "timeout": TIMEOUT_MS},
        ),
        ("named", "delete_topics", 4, {"topic_names": [MISSING], "timeout": TIMEOUT_MS}),
        (
            "grown",
            "create_partitions",
            3,
            {"topics": [{"name": n, **grown} for n in (KNOWN, MISSING)], "timeout": TIMEOUT_MS, "validate_only": True},
        ),
        (
            "configs",
            "describe_configs",
            4,
            {"resources": keys, "include_synonyms": False, "include_documentation": False},
        ),
        ("configs", "incremental_alter_configs", 1, {"resources": RESOURCES, "validate_only": True}),
        (
            "configs",
            "alter_configs",
            2,
            {"resources": [r for r in RESOURCES if r["resource_name"]], "validate_only": True},
        ),
        ("quotas", "describe_client_quotas", 1, {"components": [], "strict": False}),
        ("quotas", "alter_client_quotas", 1, {"entries": [ip], "validate_only": True}),
        ("quorum", "describe_quorum", 2, _quorum()),
        (
            "leaders",
            "elect_leaders",
            2,
            {"election_type": 0, "topic_partitions": [{"topic": KNOWN, "partitions": [0]}], "timeout": TIMEOUT_MS},
        ),
        ("moved", "alter_partition_reassignments", 0, _moved(partition)),
        ("moving", "list_partition_reassignments", 0, {"timeout": TIMEOUT_MS, "topics": None}),
        ("broker", "unregister_broker", 0, {"broker_id": 77}),
        ("features", "update_features", 2, {"timeout": TIMEOUT_MS, "feature_updates": [], "validate_only": True}),
        ("cluster", "describe_cluster", 1, {"include_cluster_authorized_operations": True, "endpoint_type": 1}),
        ("config resources", "list_config_resources", 1, {"resource_types": [16]}),
        ("folders", "describe_log_dirs", 4, {"topics": []}),
        ("folders", "describe_log_dirs", 1, {"topics": []}),
        (
            "folders",
            "alter_replica_log_dirs",
            2,
            {"dirs": [{"path": "/nowhere", "topics": [{"name": KNOWN, "partitions": [0]}]}]},
        ),
        ("producer", "init_producer_id", 4, _producer(None)),
        ("transaction", "init_producer_id", 4, _producer("x")),
    ]


def _producer(transactional_id: str | None) -> dict[str, Plain]:
    return {
        "transactional_id": transactional_id,
        "transaction_timeout": TIMEOUT_MS,
        "producer_id": -1,
        "producer_epoch": -1,
    }


def _quorum() -> dict[str, Plain]:
    return {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}


def _moved(partition: Plain) -> dict[str, Plain]:
    return {
        "timeout": TIMEOUT_MS,
        "allow_replication_factor_change": True,
        "topics": [{"name": KNOWN, "partitions": [partition]}],
    }


def _asking(asks: Callable[[], list[Ask]]) -> Callable[[Play], None]:
    @by_guest
    def denied(on: Play, guest: Guest) -> None:
        for step, api, version, fields in asks():
            guest.ask(step, api, version, **fields)

    return denied


topics_denied = _asking(_topics_asked)
groups_denied = _asking(_groups_asked)
cluster_denied = _asking(_cluster_asked)

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
    asked = [each for each in _topics_asked() if wanted.get(each[1]) == each[2] and each[0] != "in a transaction"]
    return asked + [each for each in _cluster_asked() if each[1] in cluster or each[1] == "init_producer_id"]


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
    asked = [each for each in _groups_asked() if each[1] in some]
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
    asked = [each for each in _cluster_asked() if each[1] not in unsafe]
    asked += [each for each in _topics_asked() if each[1] == "metadata" and each[2] == 9]
    asked += [each for each in _groups_asked() if each[1] == "list_groups"]
    for operation, number in operations.items():
        with given(on, (CLUSTER, THE_CLUSTER, number)):
            for step, api, version, fields in asked:
                guest.ask(f"{operation}, {step}", api, version, **fields)


@by_guest
def patterns_and_denials(on: Play, guest: Guest) -> None:
    produced = produce_fields(KNOWN, Batch(NOW_MS).encode())

    def ask(step: str) -> None:
        guest.ask(step, "produce", 9, **produced)
        guest.ask(step, "metadata", 9, **_metadata(KNOWN))

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
