"""Topics: creation, growth, deletion, and the answers of Metadata and DescribeCluster, right and wrong."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from tests.integration.differential.play import Play
from tests.integration.differential.settling import settle
from tests.support.processes.clients.wire_client import Plain, trimmed

NOBODY = UUID(int=0)
STRANGER = UUID("6ba7b810-9dad-41d1-80b4-00c04fd430c8")
TIMEOUT_MS = 15_000
NODE = 1
NO_OPERATIONS = {"include_topic_authorized_operations": False, "include_cluster_authorized_operations": False}

Assignment = Sequence[tuple[int, Sequence[int]]]
Configs = Sequence[tuple[str, str | None]]


def new(name: str, partitions: int = 1, replicas: int = 1, assigned: Assignment = (), configs: Configs = ()) -> Plain:
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": [{"partition_index": index, "broker_ids": list(brokers)} for index, brokers in assigned],
        "configs": [{"name": key, "value": value} for key, value in configs],
    }


def create(on: Play, step: str, *topics: Plain, validate_only: bool = False, version: int = 7) -> None:
    answer = on.quietly("create_topics", version, topics=list(topics), timeout=TIMEOUT_MS, validate_only=validate_only)
    on.note(step, _without_defaults(answer))


def _without_defaults(answer: Plain) -> Plain:
    """Keep a created topic's configuration only as far as it was requested: other tests compare the set of keys."""
    topics = [
        topic
        if topic.get("configs") is None
        else topic | {"configs": [entry for entry in topic["configs"] if entry["config_source"] == 1]}
        for topic in answer["topics"]
    ]
    return answer | {"topics": topics}


NEW: dict[str, Plain] = {
    "plain": new("made"),
    "the same again": new("made"),
    "broker's defaults": new("made-default", -1, -1),
    "with configuration": new("made-config", 1, 1, configs=[("retention.ms", "5000"), ("cleanup.policy", "compact")]),
    "assigned": new("made-assigned", -1, -1, assigned=[(0, [NODE]), (1, [NODE])]),
    "empty name": new(""),
    "one dot": new("."),
    "two dots": new(".."),
    "bad character": new("bad name"),
    "umlaut": new("täglich"),
    "longest name": new("x" * 249),
    "name too long": new("x" * 250),
    "clashes in metrics": new("clash.one"),
    "clashes with dot": new("clash_one"),
    "cluster metadata": new("__cluster_metadata"),
    "no partitions": new("none", 0),
    "minus two partitions": new("none", -2),
    "no replicas": new("none", 1, 0),
    "minus two replicas": new("none", 1, -2),
    "more replicas than brokers": new("none", 1, 2),
    "partitions and assignment": new("none", 2, -1, assigned=[(0, [NODE]), (1, [NODE])]),
    "replicas and assignment": new("none", -1, 1, assigned=[(0, [NODE])]),
    "assigned with a gap": new("none", -1, -1, assigned=[(0, [NODE]), (2, [NODE])]),
    "assigned from one on": new("none", -1, -1, assigned=[(1, [NODE])]),
    "assigned twice": new("none", -1, -1, assigned=[(0, [NODE]), (0, [NODE])]),
    "assigned to nobody": new("none", -1, -1, assigned=[(0, [])]),
    "assigned to a stranger": new("none", -1, -1, assigned=[(0, [77])]),
    "assigned to one broker twice": new("none", -1, -1, assigned=[(0, [NODE, NODE])]),
    "assigned with a negative broker": new("none", -1, -1, assigned=[(0, [-1])]),
    "unknown configuration": new("none", configs=[("no.such.key", "5")]),
    "wrong configuration": new("none", configs=[("retention.ms", "long")]),
    "null configuration": new("none", configs=[("retention.ms", None)]),
    "configuration twice": new("none", configs=[("retention.ms", "5"), ("retention.ms", "6")]),
}


def creation(on: Play) -> None:
    for step, topic in NEW.items():
        create(on, f"validated: {step}", topic, validate_only=True)
        create(on, step, topic)
    create(on, "good and bad together", new("mixed-good"), new("mixed bad"), new("mixed-none", 0))
    create(on, "a name twice", new("twice"), new("twice"), new("once"))
    create(on, "two that clash", new("pair.one"), new("pair_one"))
    create(on, "no topics")
    too_many = [new("many-1", 6_000), new("many-2", 4_000, assigned=()), new("many-3", -1)]
    create(on, "more partitions than one request may make", *too_many, validate_only=True)
    create(on, "as many with what is refused", *too_many[:2], new("no name"), new("made"), validate_only=True)
    create(on, "as many by hand", *too_many[:2], new("many-4", -1, -1, assigned=[(0, [NODE])]), validate_only=True)
    create(on, "as many with a name twice", *too_many[:2], new("twice"), new("twice"), validate_only=True)
    create(on, "as many with none", *too_many[:2], new("none", 0), new("less", -2), validate_only=True)
    create(on, "as many as one request may make", *too_many[:2], validate_only=True)
    for version in range(2, 8):
        create(on, f"version {version}", new(f"made-in-{version}", 2), version=version)
        create(on, f"again in version {version}", new(f"made-in-{version}", 2), version=version)
    settle(on)
    metadata(on, "made", ["made", "made-default", "made-assigned", "made-in-2", "made-in-7", "none", "once"])


def metadata(on: Play, step: str, names: Sequence[str] | None, version: int = 12) -> Plain:
    wanted = None if names is None else [{"topic_id": NOBODY, "name": name} for name in names]
    fields = {"topics": wanted, "allow_auto_topic_creation": False} | NO_OPERATIONS
    return on.ask(step, "metadata", version, **trimmed("metadata", version, fields))


def existing(on: Play) -> None:
    """Metadata in every version: existing, unknown and invalid topics, by name and by ID."""
    on.quietly("create_topics", 7, topics=[new("seen", 3)], timeout=TIMEOUT_MS, validate_only=False)
    settle(on)
    for version in range(14):
        metadata(on, f"known, version {version}", ["seen"], version)
        metadata(on, f"none, version {version}", [], version) if version else None
        if version >= 4:
            metadata(on, f"unknown, version {version}", ["unseen", "seen"], version)
            metadata(on, f"impossible, version {version}", ["bad name", "", ".", "x" * 250], version)
            metadata(on, f"twice, version {version}", ["seen", "seen"], version)
    for version in (1, 9, 12, 13):
        _all(on, f"all, version {version}", version)
    topic_id = UUID(on.quietly("metadata", 12, **_by_id(None, "seen"))["topics"][0]["topic_id"])
    for version in (10, 11, 12, 13):
        on.ask(f"by id, version {version}", "metadata", version, **_by_id(topic_id, None, version))
        on.ask(f"by an id of nobody, version {version}", "metadata", version, **_by_id(STRANGER, None, version))
        on.ask(f"by id and name, version {version}", "metadata", version, **_by_id(topic_id, "seen", version))
        on.ask(f"by id and another name, version {version}", "metadata", version, **_by_id(topic_id, "unseen", version))
        on.ask(f"by neither, version {version}", "metadata", version, **_by_id(None, None, version))
    operations = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    for version in (8, 10, 12, 13):
        topics = [{"topic_id": NOBODY, "name": name} for name in ("seen", "unseen", "bad name")]
        fields = {"topics": topics, "allow_auto_topic_creation": False} | operations
        step = f"authorized operations, version {version}"
        on.ask(step, "metadata", version, **trimmed("metadata", version, fields))
        _all(on, f"authorized operations of all, version {version}", version, operations)


def _by_id(topic_id: UUID | None, name: str | None, version: int = 12) -> dict[str, Plain]:
    wanted = [{"topic_id": topic_id or NOBODY, "name": name}]
    fields = {"topics": wanted, "allow_auto_topic_creation": False} | NO_OPERATIONS
    return trimmed("metadata", version, fields)


def _all(on: Play, step: str, version: int, operations: Mapping[str, bool] = NO_OPERATIONS) -> None:
    """Request all topics, and record only ours: Kafka also has internal ones once a client looked for a coordinator."""
    fields = {"topics": None, "allow_auto_topic_creation": False, **operations}
    answer = on.quietly("metadata", version, **trimmed("metadata", version, fields))
    on.note(step, answer | {"topics": [topic for topic in answer["topics"] if topic["name"] == "seen"]})


def auto_creation(on: Play) -> None:
    for version in (0, 3, 4, 9, 12):
        name = f"auto-{version}"
        fields = {
            "topics": [{"topic_id": NOBODY, "name": name}, {"topic_id": NOBODY, "name": "auto bad"}],
            "allow_auto_topic_creation": True,
        } | NO_OPERATIONS
        on.ask(f"first, version {version}", "metadata", version, **trimmed("metadata", version, fields))
        settle(on)
        metadata(on, f"later, version {version}", [name])


def growth(on: Play) -> None:
    on.quietly("create_topics", 7, topics=[new("growing", 2)], timeout=TIMEOUT_MS, validate_only=False)
    ways: dict[str, tuple[str, int, list[list[int]] | None]] = {
        "to three": ("growing", 3, None),
        "to three again": ("growing", 3, None),
        "to fewer": ("growing", 1, None),
        "to none": ("growing", 0, None),
        "to minus one": ("growing", -1, None),
        "assigned": ("growing", 4, [[NODE]]),
        "assigned too few": ("growing", 6, [[NODE]]),
        "assigned too many": ("growing", 6, [[NODE], [NODE], [NODE]]),
        "assigned nothing": ("growing", 6, []),
        "assigned to a stranger": ("growing", 5, [[77]]),
        "assigned to nobody": ("growing", 5, [[]]),
        "assigned twice the same": ("growing", 5, [[NODE, NODE]]),
        "unknown topic": ("not-there", 5, None),
        "impossible topic": ("not there", 5, None),
        "cluster metadata": ("__cluster_metadata", 5, None),
    }
    for step, (name, count, assigned) in ways.items():
        plan = None if assigned is None else [{"broker_ids": brokers} for brokers in assigned]
        topics = [{"name": name, "count": count, "assignments": plan}]
        for validate_only in (True, False):
            told = f"validated: {step}" if validate_only else step
            on.ask(told, "create_partitions", 3, topics=topics, timeout=TIMEOUT_MS, validate_only=validate_only)
    twice = [{"name": "growing", "count": count, "assignments": None} for count in (5, 6)]
    on.ask("twice", "create_partitions", 3, topics=twice, timeout=TIMEOUT_MS, validate_only=False)
    on.quietly("create_topics", 7, topics=[new("growing-too", 1)], timeout=TIMEOUT_MS, validate_only=False)
    settle(on)
    both = [{"name": name, "count": 6_000, "assignments": None} for name in ("growing", "growing-too")]
    on.ask("two by many", "create_partitions", 3, topics=both, timeout=TIMEOUT_MS, validate_only=True)
    for count in (9_000, 10_000, 10_001, 10_002, 10_010, 12_000):
        many = [{"name": "growing-too", "count": count, "assignments": None}]
        on.ask(f"one to {count}", "create_partitions", 3, topics=many, timeout=TIMEOUT_MS, validate_only=True)
    for version in range(4):
        topics = [{"name": "growing", "count": 10 + version, "assignments": None}]
        fields = {"topics": topics, "timeout": TIMEOUT_MS, "validate_only": False}
        on.ask(f"version {version}", "create_partitions", version, **trimmed("create_partitions", version, fields))
    settle(on)
    metadata(on, "grown", ["growing"])


def deletion(on: Play) -> None:
    names = [f"gone-{number}" for number in range(10)]
    on.quietly("create_topics", 7, topics=[new(name) for name in names], timeout=TIMEOUT_MS, validate_only=False)
    settle(on)
    found = on.quietly("metadata", 12, **_by_id(None, "gone-9"))["topics"][0]["topic_id"]
    for version in range(1, 6):
        wanted = [names[version], "not-there", "not there", ""]
        on.ask(f"version {version}", "delete_topics", version, topic_names=wanted, timeout=TIMEOUT_MS)
        on.ask(f"twice, version {version}", "delete_topics", version, topic_names=["x", "x"], timeout=TIMEOUT_MS)
    ways: dict[str, list[tuple[str | None, UUID]]] = {
        "by name": [("gone-6", NOBODY)],
        "by name again": [("gone-6", NOBODY)],
        "by name and id": [("gone-9", UUID(found))],
        "by neither": [(None, NOBODY)],
        "by an id of nobody": [(None, STRANGER)],
        "by name twice": [("gone-7", NOBODY), ("gone-7", NOBODY)],
        "by name once, by id once": [("gone-9", NOBODY), (None, UUID(found))],
        "by id": [(None, UUID(found))],
        "nothing": [],
    }
    for step, topics in ways.items():
        named = [{"name": name, "topic_id": topic_id} for name, topic_id in topics]
        on.ask(step, "delete_topics", 6, topics=named, timeout=TIMEOUT_MS)
        settle(on)
    metadata(on, "left", names)


def cluster(on: Play) -> None:
    for version in range(3):
        for operations in (False, True):
            fields = {"include_cluster_authorized_operations": operations, "include_fenced_brokers": False}
            step = f"version {version}, operations {operations}"
            on.ask(step, "describe_cluster", version, **trimmed("describe_cluster", version, fields))
    for kind in (1, 2, 3):
        on.ask(
            f"endpoints of type {kind}",
            "describe_cluster",
            1,
            include_cluster_authorized_operations=False,
            endpoint_type=kind,
        )
    fields = {"include_cluster_authorized_operations": False, "include_fenced_brokers": True}
    on.ask("fenced brokers too", "describe_cluster", 2, **fields)


def coordinators(on: Play) -> None:
    """Coordinators with fewer brokers than replicas of the topics of groups and of transactions."""
    for version in range(5):
        fields = {"key": "a-group", "key_type": 0, "coordinator_keys": ["a-group", "b-group"]}
        on.ask(f"version {version}", "find_coordinator", version, **trimmed("find_coordinator", version, fields))
    of_transaction: dict[str, Plain] = {"key": "t", "key_type": 1, "coordinator_keys": ["t"]}
    first = trimmed("find_coordinator", 4, of_transaction)
    # The first request creates our topic.
    on.until(lambda: "is being created" not in str(on.quietly("find_coordinator", 4, **first)))
    for version in range(1, 5):
        of_one = trimmed("find_coordinator", version, of_transaction)
        on.ask(f"of a transaction, version {version}", "find_coordinator", version, **of_one)
    fields = {"key_type": 9, "coordinator_keys": ["a"]}
    on.ask("unknown type", "find_coordinator", 4, **fields)
    on.ask("no keys", "find_coordinator", 4, key_type=0, coordinator_keys=[])


def producer_ids(on: Play) -> None:
    """Ids of idempotent producers. A transactional id is left out: only our node has a topic for it."""
    nobody = {"transactional_id": None, "transaction_timeout": 60_000}
    on.until(lambda: on.quietly("init_producer_id", 0, **nobody)["error_code"] != "coordinator_load_in_progress")
    for version in range(5):
        fields = {"transactional_id": None, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
        on.ask(f"version {version}", "init_producer_id", version, **trimmed("init_producer_id", version, fields))
    odd: dict[str, dict[str, Plain]] = {
        "with an id": {"producer_id": 5, "producer_epoch": 1},
        "with an id but no epoch": {"producer_id": 5, "producer_epoch": -1},
        "with an epoch but no id": {"producer_id": -1, "producer_epoch": 3},
        "with an empty transactional id": {"transactional_id": "", "producer_id": -1, "producer_epoch": -1},
    }
    for step, more in odd.items():
        fields = {"transactional_id": None, "transaction_timeout": 60_000} | more
        on.ask(step, "init_producer_id", 4, **fields)


def by_pieces(on: Play) -> None:
    """DescribeTopicPartitions: limits, cursors, missing topics."""
    made = [new(f"piece-{number}", 3) for number in range(3)]
    on.quietly("create_topics", 7, topics=made, timeout=TIMEOUT_MS, validate_only=False)
    settle(on)
    ways: dict[str, tuple[list[str], int, tuple[str, int] | None]] = {
        "one": (["piece-0"], 2000, None),
        "two the other way round": (["piece-2", "piece-1"], 2000, None),
        "one twice": (["piece-0", "piece-0"], 2000, None),
        "two partitions": (["piece-0", "piece-1"], 2, None),
        "three partitions": (["piece-0", "piece-1"], 3, None),
        "four partitions": (["piece-0", "piece-1"], 4, None),
        "no partitions": (["piece-0"], 0, None),
        "minus one partition": (["piece-0"], -1, None),
        "going on": (["piece-0", "piece-1", "piece-2"], 3, ("piece-1", 1)),
        "going on behind the end": (["piece-0", "piece-1"], 3, ("piece-0", 7)),
        "going on behind all": (["piece-0"], 3, ("zzz", 0)),
        "going on from minus one": (["piece-0"], 3, ("piece-0", -1)),
        "going on at one that is not there": (["piece-0", "piece-1"], 3, ("piece-00", 1)),
        "unknown": (["not-there", "piece-0"], 2000, None),
        "impossible": (["not there", "."], 2000, None),
    }
    for step, (names, limit, cursor) in ways.items():
        start = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
        wanted = [{"name": name} for name in names]
        fields = {"topics": wanted, "response_partition_limit": limit, "cursor": start}
        on.ask(step, "describe_topic_partitions", 0, **fields)


def lists_and_features(on: Play) -> None:
    """ListConfigResources, UpdateFeatures, AlterReplicaLogDirs and DescribeProducers."""
    on.quietly("create_topics", 7, topics=[new("listed", 1)], timeout=TIMEOUT_MS, validate_only=False)
    settle(on)
    on.ask("client metrics", "list_config_resources", 0)
    for kind in (4, 8, 16, 32):
        on.ask(f"kind {kind}", "list_config_resources", 1, resource_types=[kind])
    on.ask("unknown kind", "list_config_resources", 1, resource_types=[4, 77])
    listed = on.quietly("list_config_resources", 1, resource_types=[2])["config_resources"]
    on.note("a topic", any(item["resource_name"] == "listed" for item in listed))
    for version in range(3):
        update = {"feature": "no.such.feature", "max_version_level": 1} | (
            {} if version else {"allow_downgrade": False}
        )
        on.ask(f"feature, version {version}", "update_features", version, timeout=TIMEOUT_MS, feature_updates=[update])
    for version in (1, 2):
        folders = [{"path": "/no/such/folder", "topics": [{"name": "listed", "partitions": [0]}]}]
        on.ask(f"moved, version {version}", "alter_replica_log_dirs", version, dirs=folders)
    here = on.quietly("describe_log_dirs", 4, topics=None)["results"][0]["log_dir"]
    for name, index in (("listed", 0), ("listed", 5), ("not-there", 0)):
        folders = [{"path": here, "topics": [{"name": name, "partitions": [index]}]}]
        on.ask(f"{name}-{index} moved to where it is", "alter_replica_log_dirs", 2, dirs=folders)
    wanted = [{"name": "listed", "partition_indexes": [0, 5]}, {"name": "not-there", "partition_indexes": [0]}]
    on.ask("producers", "describe_producers", 0, topics=wanted)
