"""The value in force when a key is set at several levels."""

from broker_runtime.config import BrokerConfig, TopicConfig, broker_settings
from broker_runtime.config.in_force.effective import effective_config

SETTINGS = broker_settings(
    {"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0,EXTERNAL://127.0.0.1:0", "max.connections": "100"}
)
RATE = "max.connection.creation.rate"


def test_a_brokers_own_value_wins_over_the_cluster_default_and_that_over_the_file() -> None:
    assert effective_config(SETTINGS, {}, {}).config.max_connections == 100
    assert effective_config(SETTINGS, {"max.connections": "50"}, {}).config.max_connections == 50
    assert effective_config(SETTINGS, {"max.connections": "50"}, {"max.connections": "7"}).config.max_connections == 7


def test_listener_values_are_found_by_the_listeners_upper_case_name() -> None:
    effective = effective_config(SETTINGS, {f"listener.name.external.{RATE}": "50"}, {})
    assert effective.per_listener(BrokerConfig.max_connection_creation_rate) == {"EXTERNAL": 50}
    assert effective.config.max_connection_creation_rate == 2**31 - 1


def test_values_for_listeners_of_other_brokers_do_not_concern_this_one() -> None:
    effective = effective_config(SETTINGS, {f"listener.name.admin.{RATE}": "50"}, {})
    assert effective.per_listener(BrokerConfig.max_connection_creation_rate) == {}
    assert effective.ignored == ()


def test_stored_values_that_cannot_be_used_are_reported_and_left_out() -> None:
    effective = effective_config(SETTINGS, {"node.id": "9", "max.connections": "x", "future.key": "1"}, {})
    assert effective.config.max_connections == 100
    assert len(effective.ignored) == 3


def test_topics_fall_back_to_the_brokers_dynamic_values() -> None:
    effective = effective_config(SETTINGS, {"log.retention.ms": "1000"}, {})
    assert TopicConfig.of({}, effective.values).retention_ms == 1000
    assert TopicConfig.of({"retention.ms": "5"}, effective.values).retention_ms == 5


def test_one_bad_value_does_not_take_the_others_along() -> None:
    stored = {"max.connections.per.ip.overrides": "nobody", "max.connections": "7", "max.connections.per.ip": "5"}
    effective = effective_config(SETTINGS, stored, {})
    assert effective.config.max_connections == 7
    assert effective.config.max_connections_per_ip == 5
    (problem,) = effective.ignored
    assert "max.connections.per.ip.overrides" in problem


def test_a_default_that_only_other_brokers_could_bear_is_left_out_here() -> None:
    effective = effective_config(SETTINGS, {RATE: "0", "max.connections": "7"}, {})
    assert effective.config.max_connection_creation_rate == 2**31 - 1
    assert effective.config.max_connections == 7
    (problem,) = effective.ignored
    assert problem.startswith(f"Invalid {RATE} 0")


def test_values_of_the_file_are_included_in_rule_checks() -> None:
    given = {"node.id": "1", "max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"}
    effective = effective_config(broker_settings(given), {"max.connections.per.ip.overrides": ""}, {})
    assert effective.config.max_connections_per_ip_overrides == "127.0.0.1:5"
    assert len(effective.ignored) == 1


def test_a_limit_of_zero_in_the_file_is_no_problem_of_the_stored_values() -> None:
    zero = broker_settings({"node.id": "1", RATE: "0"})
    assert effective_config(zero, {"max.connections": "5"}, {}).ignored == ()
    assert effective_config(zero, {RATE: "5"}, {}).config.max_connection_creation_rate == 5


def test_a_host_that_is_left_out_is_the_one_that_this_start_has_for_brokers() -> None:
    stored = {
        "listeners": "INTERNAL://:9091,OUTSIDE://:9095",
        "advertised.listeners": "INTERNAL://:9091,OUTSIDE://node-7:30095",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,OUTSIDE:PLAINTEXT",
    }
    for host in ("10.0.0.1", "10.0.0.2"):
        file = {
            "node.id": "1",
            "listeners": f"INTERNAL://{host}:9091,OLD://{host}:9094",
            "advertised.listeners": f"INTERNAL://own-{host}:9091",
            "inter.broker.listener.name": "INTERNAL",
        }
        effective = effective_config(broker_settings(file), {}, stored)
        assert effective.ignored == ()
        opened = [str(endpoint) for endpoint in effective.listeners.opened]
        assert opened == [f"INTERNAL://{host}:9091", f"OUTSIDE://{host}:9095"]
        told = [str(endpoint) for endpoint in effective.listeners.advertised]
        assert told == [f"INTERNAL://own-{host}:9091", "OUTSIDE://node-7:30095"]


def test_a_rate_that_cannot_adapt_here_stays_a_limit() -> None:
    p99, least = "connection.quota.adaptive.p99.ms", "connection.quota.adaptive.min.rate"
    settings = broker_settings({"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0", least: "200"})
    effective = effective_config(settings, {p99: "20", RATE: "100"}, {})
    assert effective.config.max_connection_creation_rate == 100
    assert effective.config.connection_quota_adaptive_p99_ms == 0
    (problem,) = effective.ignored
    assert problem.endswith(f"not used: {p99}")


def test_a_rate_of_the_cluster_that_the_file_lets_adapt_does_not_adapt() -> None:
    p99, scope = "connection.quota.adaptive.p99.ms", "connection.quota.scope"
    settings = broker_settings({"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0", p99: "20"})
    effective = effective_config(settings, {scope: "cluster", RATE: "100"}, {})
    assert (effective.config.connection_quota_scope, effective.config.connection_quota_adaptive_p99_ms) == (
        "broker",
        20,
    )
    (problem,) = effective.ignored
    assert problem.endswith(f"not used: {scope}")
    both = effective_config(
        broker_settings({"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0"}), {p99: "20", scope: "cluster"}, {}
    )
    assert (both.config.connection_quota_scope, both.config.connection_quota_adaptive_p99_ms) == ("cluster", 0)
