"""Dynamic configuration: operations, keys that may be changed, and Kafka's answers for the others."""

import pytest

from broker_runtime.config.keys.groups import ConsumerGroupConfig
from broker_runtime.controller import configs
from broker_runtime.controller.configs import (
    VALUE_LENGTH_MAX,
    Change,
    Operation,
    ResourceCapacity,
    alter_incrementally,
    replace_all,
)
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.configs import ConfigRecord
from broker_runtime.metadata.image import ConfigLimits
from tests.support.worlds.controller import Metadata

BROKER, TOPIC, CLIENT_METRICS, GROUP = 4, 2, 16, 32
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
RATE, LISTENER_RATE = "max.connection.creation.rate", "listener.name.external.max.connection.creation.rate"


@pytest.fixture
def metadata() -> Metadata:
    metadata = Metadata()
    metadata.broker(1, "INTERNAL", "EXTERNAL")
    metadata.topic("orders", [1])
    return metadata


def alter(metadata: Metadata, kind: int, name: str, *changes: tuple[str, int, str | None]) -> None:
    asked = [Change(*change) for change in changes]
    metadata.write(*alter_incrementally((kind, name), asked, metadata.image))


def refusal(metadata: Metadata, kind: int, name: str, *changes: tuple[str, int, str | None]) -> tuple[ErrorCode, str]:
    before = len(metadata.journal)
    with pytest.raises(KafkaError) as refused:
        alter(metadata, kind, name, *changes)
    assert len(metadata.journal) == before
    return refused.value.code, refused.value.message or ""


def test_set_and_delete_of_one_broker_and_of_the_default(metadata: Metadata) -> None:
    alter(metadata, BROKER, "", (RATE, Operation.SET, "50"))
    alter(metadata, BROKER, "1", (RATE, Operation.SET, "60"), (LISTENER_RATE, Operation.SET, "7"))
    assert metadata.image.configs.of_broker(None) == {RATE: "50"}
    assert metadata.image.configs.of_broker(1) == {RATE: "60", LISTENER_RATE: "7"}
    alter(metadata, BROKER, "1", (RATE, Operation.DELETE, None), ("max.connections", Operation.DELETE, ""))
    assert metadata.image.configs.of_broker(1) == {LISTENER_RATE: "7"}


def test_a_listener_limit_may_be_set_for_the_whole_cluster(metadata: Metadata) -> None:
    alter(metadata, BROKER, "", (LISTENER_RATE, Operation.SET, "7"))
    assert metadata.image.configs.of_broker(None) == {LISTENER_RATE: "7"}


def test_a_change_to_the_current_value_writes_no_record(metadata: Metadata) -> None:
    alter(metadata, BROKER, "", (RATE, Operation.SET, "50"))
    asked = [Change(RATE, Operation.SET, "50"), Change("max.connections", Operation.DELETE, None)]
    assert alter_incrementally((BROKER, ""), asked, metadata.image) == []


def test_append_and_subtract_of_lists_start_from_the_default(metadata: Metadata) -> None:
    alter(metadata, TOPIC, "orders", ("cleanup.policy", Operation.APPEND, "compact,delete"))
    assert metadata.image.configs.of_topic("orders") == {"cleanup.policy": "delete,compact"}
    alter(metadata, TOPIC, "orders", ("cleanup.policy", Operation.SUBTRACT, "delete"))
    assert metadata.image.configs.of_topic("orders") == {"cleanup.policy": "compact"}


class CountedItem(str):
    """An item of a list that counts its comparisons."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedItem.compared += 1
        return str.__eq__(self, other)


@pytest.mark.parametrize("operation", [Operation.APPEND, Operation.SUBTRACT])
def test_a_long_list_is_changed_without_comparing_all_items_with_each_other(
    metadata: Metadata, operation: Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CountedItem, "compared", 0)
    key, real = "leader.replication.throttled.replicas", configs._items
    stored, given = (",".join(f"{number}:1" for number in range(at, at + 2_000)) for at in (0, 1_000))
    alter(metadata, TOPIC, "orders", (key, Operation.SET, stored))
    monkeypatch.setattr(configs, "_items", lambda text: [CountedItem(item) for item in real(text)])
    alter(metadata, TOPIC, "orders", (key, operation, given))
    left = 3_000 if operation == Operation.APPEND else 1_000
    assert metadata.image.configs.of_topic("orders")[key] == ",".join(f"{number}:1" for number in range(left))
    assert 0 < CountedItem.compared <= 20_000


@pytest.mark.parametrize(
    ("operation", "length", "why"),
    [
        (Operation.SET, VALUE_LENGTH_MAX + 1, "exceeds the maximum value size"),
        (Operation.APPEND, 2 * VALUE_LENGTH_MAX + 1, "in several requests"),
        (Operation.SUBTRACT, 2 * VALUE_LENGTH_MAX + 1, "in several requests"),
    ],
)
def test_a_value_that_is_too_long_is_refused_before_it_is_taken_apart(
    metadata: Metadata, operation: Operation, length: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configs, "_items", lambda text: pytest.fail("the value is taken apart"))
    code, message = refusal(metadata, TOPIC, "orders", ("cleanup.policy", operation, ("x," * length)[:length]))
    assert (code, why in message) == (ErrorCode.INVALID_CONFIG, True)


def test_a_value_has_a_limit_of_bytes(metadata: Metadata) -> None:
    """Older versions of DescribeConfigs cannot have a longer text: every later request would fail."""
    topics = "\N{LATIN SMALL LETTER E WITH ACUTE}" * (VALUE_LENGTH_MAX // 2 + 1)
    code, message = refusal(
        metadata, TOPIC, "orders", ("follower.replication.throttled.replicas", Operation.SET, topics)
    )
    assert (code, "exceeds the maximum value size" in message) == (ErrorCode.INVALID_CONFIG, True)


def test_only_the_value_that_results_has_a_limit_as_in_kafka(metadata: Metadata) -> None:
    key, longer = "leader.replication.throttled.replicas", ",".join(f"{number}:1" for number in range(6_000))
    assert len(longer) > VALUE_LENGTH_MAX
    alter(metadata, TOPIC, "orders", (key, Operation.SET, "7:1,8000:1"))
    code, message = refusal(metadata, TOPIC, "orders", (key, Operation.APPEND, longer))
    assert (code, "exceeds the maximum value size" in message) == (ErrorCode.INVALID_CONFIG, True)
    alter(metadata, TOPIC, "orders", (key, Operation.APPEND, ",".join(["9:1"] * 10_000)))
    assert metadata.image.configs.of_topic("orders") == {key: "7:1,8000:1,9:1"}
    alter(metadata, TOPIC, "orders", (key, Operation.SUBTRACT, longer))
    assert metadata.image.configs.of_topic("orders") == {key: "8000:1"}
    alter(metadata, TOPIC, "orders", (key, Operation.DELETE, longer))
    assert metadata.image.configs.of_topic("orders") == {}


def test_replacing_lets_what_is_not_named_fall_back(metadata: Metadata) -> None:
    alter(metadata, TOPIC, "orders", ("retention.ms", 0, "5"), ("segment.ms", 0, "6"))
    records = replace_all((TOPIC, "orders"), [("retention.ms", "7")], metadata.image)
    assert records == [
        ConfigRecord(TOPIC, "orders", "retention.ms", "7"),
        ConfigRecord(TOPIC, "orders", "segment.ms", None),
    ]


@pytest.mark.parametrize(
    ("kind", "name", "key", "value", "code", "message"),
    [
        (BROKER, "", RATE, "-1", ErrorCode.INVALID_REQUEST, "Value must be at least 0"),
        (BROKER, "", RATE, "abc", ErrorCode.INVALID_REQUEST, f"Invalid value abc for configuration {RATE}"),
        (BROKER, "", RATE, "0", ErrorCode.INVALID_REQUEST, f"Invalid {RATE} 0"),
        (BROKER, "1", LISTENER_RATE, "0", ErrorCode.INVALID_REQUEST, f"Invalid {RATE} 0"),
        (
            BROKER,
            "1",
            "listener.name.nope.max.connections",
            "5",
            ErrorCode.INVALID_REQUEST,
            "Unknown listener in broker",
        ),
        (BROKER, "", "listener.name.nope.max.connections", "5", ErrorCode.INVALID_REQUEST, "no broker has a listener"),
        (BROKER, "", "listener.name..max.connections", "5", ErrorCode.INVALID_REQUEST, "no broker has a listener ''"),
        (BROKER, "", "listener.name.EXTERNAL.max.connections", "5", ErrorCode.INVALID_REQUEST, "lower case"),
        (BROKER, "1", "listener.name.External.max.connections", "5", ErrorCode.INVALID_REQUEST, "external, internal"),
        (BROKER, "", "max.connections.per.ip.overrides", "h:99999999999", ErrorCode.INVALID_REQUEST, "and 2147483647"),
        (BROKER, "", "max.connections.per.ip.overrides", "h:1_0", ErrorCode.INVALID_REQUEST, "the count of h:1_0"),
        (BROKER, "", RATE, "1_000", ErrorCode.INVALID_REQUEST, f"Invalid value 1_000 for configuration {RATE}"),
        (BROKER, "", "node.id", "3", ErrorCode.INVALID_REQUEST, "Cannot update these configs dynamically: [node.id]"),
        (BROKER, "1", "quota.window.num", "5", ErrorCode.INVALID_REQUEST, "dynamically: [quota.window.num]"),
        (BROKER, "", "no.such", "3", ErrorCode.INVALID_REQUEST, "Unknown broker config name: no.such"),
        (BROKER, "", "listener.name.external.node.id", "3", ErrorCode.INVALID_REQUEST, "Unknown broker config name"),
        (BROKER, "9", RATE, "3", ErrorCode.BROKER_ID_NOT_REGISTERED, "No broker with id 9 found."),
        (BROKER, "x", RATE, "3", ErrorCode.INVALID_REQUEST, "Node id must be an integer, but it is: x"),
        (BROKER, "01", RATE, "3", ErrorCode.INVALID_REQUEST, "Node id must be in plain decimal form"),
        (BROKER, "", RATE, None, ErrorCode.INVALID_REQUEST, f"Null value not supported for : {RATE}"),
        (BROKER, "", "max.connections.per.ip", "0", ErrorCode.INVALID_REQUEST, "can be set to zero only if"),
        (BROKER, "", "max.connections.per.ip.overrides", "a b:5", ErrorCode.INVALID_REQUEST, "a b is not valid"),
        (BROKER, "", "max.connections.per.ip.overrides", "1.2.3.4", ErrorCode.INVALID_REQUEST, "must be host:count"),
        (BROKER, "", "max.connections.per.ip.overrides", "h:-1", ErrorCode.INVALID_REQUEST, "must be host:count"),
        (TOPIC, "nope", "retention.ms", "1", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nope' does not exist."),
        (TOPIC, "", "retention.ms", "1", ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."),
        (TOPIC, "orders", "foo", "1", ErrorCode.INVALID_CONFIG, "Unknown topic config name: foo"),
        (TOPIC, "orders", "retention.ms", "x", ErrorCode.INVALID_CONFIG, "Invalid value x for configuration"),
        (TOPIC, "orders", "retention.ms", "1" * 40_000, ErrorCode.INVALID_CONFIG, "exceeds the maximum value size"),
        (3, "x", "retention.ms", "1", ErrorCode.INVALID_REQUEST, "Unknown resource type 3"),
        (8, "1", "root", "DEBUG", ErrorCode.INVALID_REQUEST, "Unknown resource type 8"),
        (GROUP, "", SESSION, "50000", ErrorCode.INVALID_REQUEST, "Default group resources are not allowed."),
        (GROUP, "g", "foo", "1", ErrorCode.INVALID_CONFIG, "Unknown group config name: foo"),
        (GROUP, "g", SESSION, "soon", ErrorCode.INVALID_CONFIG, f"Invalid value soon for configuration {SESSION}"),
        (GROUP, "g", SESSION, "44999", ErrorCode.INVALID_CONFIG, "or equal to group.consumer.min.session.timeout.ms"),
        (GROUP, "g", SESSION, "60001", ErrorCode.INVALID_CONFIG, "or equal to group.consumer.max.session.timeout.ms"),
        (GROUP, "g", HEARTBEAT, "4999", ErrorCode.INVALID_CONFIG, "to group.consumer.min.heartbeat.interval.ms"),
        (GROUP, "g", HEARTBEAT, "15001", ErrorCode.INVALID_CONFIG, "to group.consumer.max.heartbeat.interval.ms"),
        (GROUP, "g", "share.isolation.level", "none", ErrorCode.INVALID_CONFIG, "read_committed, read_uncommitted"),
        (CLIENT_METRICS, "", "metrics", "*", ErrorCode.INVALID_REQUEST, "Subscription name can't be empty"),
        (CLIENT_METRICS, "m", "foo", "1", ErrorCode.INVALID_REQUEST, "Unknown client metrics configuration: foo"),
        (CLIENT_METRICS, "m", "interval.ms", "99", ErrorCode.INVALID_REQUEST, "must be between 100 and 3600000"),
        (CLIENT_METRICS, "m", "interval.ms", "x", ErrorCode.INVALID_CONFIG, "Invalid value x for configuration"),
        (CLIENT_METRICS, "m", "match", "client=a", ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: client"),
        (CLIENT_METRICS, "m", "match", "client_id", ErrorCode.INVALID_CONFIG, "Illegal client matching pattern"),
        (CLIENT_METRICS, "m", "match", "client_id=a," * 13, ErrorCode.INVALID_CONFIG, "13 expressions; at most 12 are"),
        (CLIENT_METRICS, "m", "match", "client_id=(", ErrorCode.INVALID_CONFIG, "is not a regular expression of RE2"),
    ],
)
def test_changes_that_are_refused(
    metadata: Metadata, kind: int, name: str, key: str, value: str | None, code: ErrorCode, message: str
) -> None:
    refused = refusal(metadata, kind, name, (key, Operation.SET, value))
    assert refused[0] == code
    assert message in refused[1]


@pytest.mark.parametrize(
    ("operation", "code", "message"),
    [
        (Operation.APPEND, ErrorCode.INVALID_CONFIG, f"Can't APPEND to key {RATE} because its type is not LIST."),
        (Operation.SUBTRACT, ErrorCode.INVALID_CONFIG, f"Can't SUBTRACT to key {RATE} because its type is not LIST."),
        (7, ErrorCode.INVALID_REQUEST, "Unknown operations type 7"),
    ],
)
def test_operations_that_are_refused(metadata: Metadata, operation: int, code: ErrorCode, message: str) -> None:
    assert refusal(metadata, BROKER, "", (RATE, operation, "1")) == (code, message)


def test_a_key_twice_is_refused_in_both_ways_of_altering(metadata: Metadata) -> None:
    twice = ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"
    assert refusal(metadata, BROKER, "", (RATE, 0, "1"), (RATE, 0, "2")) == twice
    with pytest.raises(KafkaError, match="duplicate config keys"):
        replace_all((BROKER, ""), [(RATE, "1"), (RATE, "2")], metadata.image)
    with pytest.raises(KafkaError, match="Null value not supported"):
        replace_all((BROKER, ""), [(RATE, None)], metadata.image)


def test_zero_for_all_is_fine_while_every_listener_has_its_own_limit(metadata: Metadata) -> None:
    internal = LISTENER_RATE.replace("external", "internal")
    alter(metadata, BROKER, "1", (LISTENER_RATE, 0, "5"), (internal, 0, "5"))
    alter(metadata, BROKER, "1", (RATE, 0, "0"))
    code, message = refusal(metadata, BROKER, "1", (internal, Operation.DELETE, None))
    assert (code, message) == (ErrorCode.INVALID_REQUEST, f"Invalid {RATE} 0")


def test_an_adaptive_minimum_is_at_most_the_maximum(metadata: Metadata) -> None:
    p99, least = "connection.quota.adaptive.p99.ms", "connection.quota.adaptive.min.rate"
    alter(metadata, BROKER, "", (RATE, Operation.SET, "100"), (least, Operation.SET, "200"))
    code, message = refusal(metadata, BROKER, "", (p99, Operation.SET, "20"))
    assert (code, message) == (
        ErrorCode.INVALID_REQUEST,
        f"Invalid {least} 200: must be at most {RATE}, which is 100",
    )
    external = "listener.name.external."
    alter(metadata, BROKER, "", (f"{external}{RATE}", Operation.SET, "50"), (least, Operation.SET, "60"))
    code, message = refusal(metadata, BROKER, "", (f"{external}{p99}", Operation.SET, "20"))
    assert message == f"Invalid {external}{least} 60: must be at most {external}{RATE}, which is 50"
    alter(metadata, BROKER, "", (p99, Operation.SET, "20"))


def test_a_rate_of_the_cluster_does_not_adapt(metadata: Metadata) -> None:
    p99, scope = "connection.quota.adaptive.p99.ms", "connection.quota.scope"
    for prefix in ("", "listener.name.external."):
        alter(metadata, BROKER, "", (f"{prefix}{scope}", Operation.SET, "cluster"))
        code, message = refusal(metadata, BROKER, "", (f"{prefix}{p99}", Operation.SET, "20"))
        assert (code, message) == (
            ErrorCode.INVALID_REQUEST,
            f"Invalid {prefix}{scope} cluster: {prefix}{p99} is set, and each broker adapts its rate alone; remove one "
            "of the two",
        )
        alter(metadata, BROKER, "", (f"{prefix}{scope}", Operation.SET, "broker"), (f"{prefix}{p99}", 0, "20"))
    code, message = refusal(metadata, BROKER, "", (scope, Operation.SET, "planet"))
    assert "must be one of: broker, cluster" in message


def test_the_default_of_zero_is_allowed_with_overrides_for_some_addresses(metadata: Metadata) -> None:
    alter(metadata, BROKER, "", ("max.connections.per.ip.overrides", 0, "127.0.0.1:5,[::1]:6,host-1:7"))
    alter(metadata, BROKER, "", ("max.connections.per.ip", 0, "0"))
    assert metadata.image.configs.of_broker(None)["max.connections.per.ip"] == "0"


def test_a_change_may_not_lock_out_all_addresses(metadata: Metadata) -> None:
    locked_out = "max.connections.per.ip can be set to zero only if"
    overrides = "max.connections.per.ip.overrides"
    for level in ("", "1"):
        alter(metadata, BROKER, level, ("max.connections.per.ip", 0, "0"), (overrides, 0, "127.0.0.1:50"))
        for change in ((overrides, Operation.DELETE, None), (overrides, Operation.SET, "")):
            assert locked_out in refusal(metadata, BROKER, level, change)[1]
        with pytest.raises(KafkaError, match=locked_out):
            replace_all((BROKER, level), [("max.connections.per.ip", "0")], metadata.image)
        both = (overrides, Operation.DELETE, None), ("max.connections.per.ip", Operation.DELETE, None)
        alter(metadata, BROKER, level, *both)


def test_the_default_is_judged_as_if_no_broker_overrode_it(metadata: Metadata) -> None:
    internal = LISTENER_RATE.replace("external", "internal")
    alter(metadata, BROKER, "1", (LISTENER_RATE, 0, "5"), (internal, 0, "5"), ("max.connections.per.ip", 0, "9"))
    assert refusal(metadata, BROKER, "", (RATE, 0, "0"))[1] == f"Invalid {RATE} 0"
    assert "set to zero only if" in refusal(metadata, BROKER, "", ("max.connections.per.ip", 0, "0"))[1]
    alter(metadata, BROKER, "", (RATE, 0, "0"), (LISTENER_RATE, 0, "5"), (internal, 0, "5"))


def test_what_is_wrong_already_does_not_hinder_other_changes(metadata: Metadata) -> None:
    """An older version, or a broker that has since lost a listener, may have left such values."""
    stored = {"max.connections.per.ip": "0", "listener.name.gone.max.connections": "5", RATE: "many"}
    metadata.write(*(ConfigRecord(BROKER, "", key, value) for key, value in stored.items()))
    alter(metadata, BROKER, "", ("log.retention.ms", 0, "5"))
    replaced = [("listener.name.gone.max.connections", "5"), ("log.retention.ms", "5")]
    metadata.write(*replace_all((BROKER, ""), replaced, metadata.image))
    assert metadata.image.configs.of_broker(None) == dict(replaced)


def test_a_stored_key_that_nobody_knows_can_be_taken_away(metadata: Metadata) -> None:
    metadata.write(ConfigRecord(BROKER, "", "of.another.version", "1"))
    alter(metadata, BROKER, "", ("of.another.version", Operation.DELETE, None))
    assert metadata.image.configs.of_broker(None) == {}


def test_a_key_that_only_a_file_can_set_may_be_taken_away(metadata: Metadata) -> None:
    alter(metadata, BROKER, "1", ("node.id", Operation.DELETE, None))
    assert refusal(metadata, BROKER, "1", ("node.id", Operation.SET, "5"))[0] == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", [".", "bad name", "x" * 250])
def test_names_that_no_topic_can_have_are_told_from_unknown_ones(metadata: Metadata, name: str) -> None:
    change = ("retention.ms", Operation.SET, "5")
    assert refusal(metadata, TOPIC, name, change)[0] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert refusal(metadata, TOPIC, "unknown", change)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_limit_that_would_leave_no_connection_for_brokers_and_administrators_is_refused(metadata: Metadata) -> None:
    for broker in (2, 3):
        metadata.broker(broker, "INTERNAL", "EXTERNAL")
    own = "listener.name.internal.max.connections"
    code, message = refusal(metadata, BROKER, "", (own, Operation.SET, "2"))
    assert code == ErrorCode.INVALID_REQUEST
    assert "3 brokers and their administrators connect by the listener internal" in message
    assert refusal(metadata, BROKER, "1", (own, Operation.SET, "1"))[0] == ErrorCode.INVALID_REQUEST
    # The limits of clients' listeners, and of the broker beside such a listener, may be arbitrarily small.
    alter(metadata, BROKER, "", ("max.connections", Operation.SET, "1"), (own, Operation.SET, "3"))
    alter(metadata, BROKER, "", ("listener.name.external.max.connections", Operation.SET, "1"))


def test_the_brokers_limit_leaves_room_for_brokers_on_a_listener_shared_with_clients() -> None:
    metadata = Metadata()
    for broker in (1, 2, 3):
        metadata.broker(broker, "PLAINTEXT")
    assert refusal(metadata, BROKER, "", ("max.connections", Operation.SET, "2"))[0] == ErrorCode.INVALID_REQUEST
    alter(metadata, BROKER, "", ("max.connections", Operation.SET, "3"))


def test_keys_of_kafka_that_are_not_used_are_stored_at_the_levels_that_kafka_has_for_them(metadata: Metadata) -> None:
    alter(metadata, BROKER, "", ("log.cleaner.threads", 0, "2"), ("leader.replication.throttled.rate", 0, "5"))
    alter(metadata, BROKER, "1", ("listener.name.external.ssl.keystore.location", 0, "/k"))
    alter(metadata, TOPIC, "orders", ("min.cleanable.dirty.ratio", 0, "0.1"))
    assert metadata.image.configs.of_broker(None)["log.cleaner.threads"] == "2"
    assert "dynamically" in refusal(metadata, BROKER, "", ("offsets.topic.num.partitions", 0, "3"))[1]
    assert "at default cluster level" in refusal(metadata, BROKER, "", ("ssl.keystore.location", 0, "/k"))[1]
    assert "Invalid value two" in refusal(metadata, BROKER, "", ("log.cleaner.threads", 0, "two"))[1]
    assert refusal(metadata, TOPIC, "orders", ("preallocate", 0, "perhaps"))[0] == ErrorCode.INVALID_CONFIG


def test_groups_and_client_metrics_exist_by_being_configured(metadata: Metadata) -> None:
    configs = metadata.image.configs
    alter(metadata, GROUP, "readers", (SESSION, Operation.SET, "50000"), ("streams.num.standby.replicas", 0, "1"))
    alter(metadata, CLIENT_METRICS, "all", ("metrics", 0, "*"), ("match", 0, "client_id=a.*,client_source_port=9.*"))
    assert configs.of_group("readers") == {SESSION: "50000", "streams.num.standby.replicas": "1"}
    assert (list(configs.names(GROUP)), list(configs.names(CLIENT_METRICS))) == (["readers"], ["all"])
    metadata.write(*replace_all((GROUP, "readers"), [(HEARTBEAT, "6000")], metadata.image))
    assert configs.of_group("readers") == {HEARTBEAT: "6000"}
    alter(metadata, GROUP, "readers", (HEARTBEAT, Operation.DELETE, None))
    metadata.write(*replace_all((CLIENT_METRICS, "all"), [], metadata.image))
    assert (list(configs.names(GROUP)), list(configs.names(CLIENT_METRICS))) == ([], [])


@pytest.mark.parametrize("operation", [Operation.APPEND, Operation.SUBTRACT])
@pytest.mark.parametrize(("kind", "key"), [(GROUP, SESSION), (CLIENT_METRICS, "metrics")])
def test_lists_of_groups_and_client_metrics_are_set_as_a_whole(
    metadata: Metadata, kind: int, key: str, operation: Operation
) -> None:
    code, message = refusal(metadata, kind, "one", (key, operation, "1"))
    assert (code, message) == (
        ErrorCode.INVALID_CONFIG,
        f"Can't {operation.name} to key {key} because its type is not LIST.",
    )


def test_the_session_of_a_group_lasts_longer_than_its_heartbeat_interval(metadata: Metadata) -> None:
    metadata.image.limits = ConfigLimits(ConsumerGroupConfig(group_consumer_max_heartbeat_interval_ms=60_000))
    alter(metadata, GROUP, "g", (HEARTBEAT, 0, "44999"))
    longer = ErrorCode.INVALID_CONFIG, f"{SESSION} must be greater than {HEARTBEAT}"
    assert refusal(metadata, GROUP, "g", (HEARTBEAT, 0, "45000")) == longer
    alter(metadata, GROUP, "g", (HEARTBEAT, 0, "45000"), (SESSION, 0, "45001"))
    assert refusal(metadata, GROUP, "g", (SESSION, Operation.DELETE, None)) == longer


def test_no_more_resources_are_configured_than_the_broker_has_room_for(metadata: Metadata) -> None:
    metadata.image.limits = ConfigLimits(resources_max=2)
    set_one, taken_away = [Change(SESSION, Operation.SET, "50000")], [Change(SESSION, Operation.DELETE, None)]

    def take(room: ResourceCapacity, kind: int, name: str, changes: list[Change]) -> None:
        room.take((kind, name), alter_incrementally((kind, name), changes, metadata.image))

    alter(metadata, GROUP, "a", (SESSION, 0, "50000"))
    room = ResourceCapacity(metadata.image)
    take(room, GROUP, "a", [Change(HEARTBEAT, Operation.SET, "6000")])
    take(room, GROUP, "b", set_one)
    take(room, GROUP, "c", taken_away)
    with pytest.raises(
        KafkaError, match=r"c has no configuration yet, .* \(sluicegate.config.resources.max\)"
    ) as refused:
        take(room, GROUP, "c", set_one)
    assert refused.value.code == ErrorCode.POLICY_VIOLATION
    take(room, CLIENT_METRICS, "a", [Change("metrics", Operation.SET, "*")])
    take(ResourceCapacity(metadata.image), GROUP, "c", set_one)


def test_the_number_of_client_metrics_subscriptions_is_limited(
    metadata: Metadata,
) -> None:
    room, set_one = ResourceCapacity(metadata.image), [Change("metrics", Operation.SET, "*")]

    def take(name: str) -> None:
        room.take((CLIENT_METRICS, name), alter_incrementally((CLIENT_METRICS, name), set_one, metadata.image))

    for number in range(100):
        take(f"s{number}")
    with pytest.raises(KafkaError, match="at most 100 resources of type 16 may have one; delete one") as refused:
        take("one more")
    assert refused.value.code == ErrorCode.POLICY_VIOLATION
