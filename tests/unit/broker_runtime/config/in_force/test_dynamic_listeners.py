"""KIP-226's rules for the listeners of one broker, over those in its file."""

from collections.abc import Mapping

import pytest

from broker_runtime.config import BrokerSettings, Endpoint, broker_settings
from broker_runtime.config.in_force.dynamic_listeners import dynamic_listeners, static_listeners
from broker_runtime.config.in_force.effective import effective_config
from broker_runtime.errors import ConfigError

INTERNAL = "INTERNAL://0.0.0.0:9091"
FILE = {
    "node.id": "0",
    "process.roles": "broker",
    "listeners": f"{INTERNAL},CLIENTS://0.0.0.0:9092",
    "advertised.listeners": "INTERNAL://pod-0:9091,CLIENTS://pod-0:9092",
    "inter.broker.listener.name": "INTERNAL",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "10.0.0.9:9093",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:PLAINTEXT",
}
COMBINED = broker_settings(
    {
        "node.id": "1",
        "listeners": "PLAINTEXT://h:9092,CONTROLLER://h:9093",
        "controller.listener.names": "CONTROLLER",
    }
)
MAP = "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT"
NEW = {
    "listeners": f"{INTERNAL},EXTERNAL://0.0.0.0:9094",
    "advertised.listeners": "INTERNAL://pod-0:9091,external://lb.example:443",
    "listener.security.protocol.map": MAP,
}


def settings(**more: str) -> BrokerSettings:
    return broker_settings(FILE | more)


def test_what_is_dynamic_wins_over_the_file() -> None:
    found = dynamic_listeners(settings(), NEW)
    assert found.opened == (Endpoint("INTERNAL", "0.0.0.0", 9091), Endpoint("EXTERNAL", "0.0.0.0", 9094))
    assert found.advertised == (Endpoint("INTERNAL", "pod-0", 9091), Endpoint("EXTERNAL", "lb.example", 443))


def test_without_a_dynamic_key_they_are_those_of_the_file() -> None:
    assert dynamic_listeners(settings(), {"max.connections": "5"}) == static_listeners(settings())


def test_an_address_that_is_told_may_change_alone() -> None:
    own = {"advertised.listeners": "INTERNAL://10.0.0.5:9091,CLIENTS://shop.example:30092"}
    found = dynamic_listeners(settings(), own)
    assert found.opened == static_listeners(settings()).opened
    assert found.advertised[1] == Endpoint("CLIENTS", "shop.example", 30092)


def test_a_host_that_is_left_out_is_the_files_for_this_listener_and_the_brokers_one_for_a_new_one() -> None:
    file = {"listeners": "INTERNAL://10.0.0.7:9091,CLIENTS://:9092"}
    told = {"advertised.listeners": "INTERNAL://:9091,CLIENTS://shop.example:30092"}
    assert dynamic_listeners(settings(**file), told).opened == static_listeners(settings(**file)).opened
    more = {"listeners": f"{file['listeners']},EXTERNAL://:9094", "listener.security.protocol.map": MAP}
    found = dynamic_listeners(settings(**file), told | more)
    assert [endpoint.host for endpoint in found.opened] == ["10.0.0.7", "", "10.0.0.7"]
    assert [endpoint.host for endpoint in found.advertised] == ["pod-0", "shop.example"]


@pytest.mark.parametrize("host", ["shop.example", "a" * 64 + ".example", "10.0.0.300"])
def test_no_name_server_is_asked_where_a_listener_is_to_be_opened(host: str) -> None:
    with pytest.raises(ConfigError, match="is not an address; use an address of this machine"):
        dynamic_listeners(settings(), NEW | {"listeners": f"{INTERNAL},EXTERNAL://{host}:9094"})


def test_a_listener_need_not_be_told_to_clients() -> None:
    found = dynamic_listeners(settings(), NEW | {"advertised.listeners": "INTERNAL://pod-0:9091"})
    assert [endpoint.listener for endpoint in found.advertised] == ["INTERNAL"]


def test_the_listener_of_a_controller_in_the_same_process_is_kept_and_not_shown() -> None:
    own = {
        "listeners": "PLAINTEXT://h:9092,CONTROLLER://h:9093,SSL://h:0",
        "listener.security.protocol.map": "SSL:PLAINTEXT",
    }
    assert dynamic_listeners(COMBINED, own).names == {"PLAINTEXT", "SSL"}
    with pytest.raises(ConfigError, match="CONTROLLER://h:9093 cannot be removed"):
        dynamic_listeners(COMBINED, {"listeners": "PLAINTEXT://h:9092"})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"listeners": "EXTERNAL://0.0.0.0:9094"}, "advertised.listeners: INTERNAL is not one of listeners"),
        ({"listeners": f"{INTERNAL}"}, "advertised.listeners: EXTERNAL is not one of listeners"),
        ({"listeners": "INTERNAL://0.0.0.0:9999,EXTERNAL://0.0.0.0:9094"}, "cannot be removed or changed"),
        ({"advertised.listeners": "EXTERNAL://lb.example:443"}, "connect to each other by INTERNAL; include it"),
        ({"listener.security.protocol.map": "INTERNAL:PLAINTEXT"}, "the security protocol of EXTERNAL is not known"),
        (
            {"listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:SASL_SSL"},
            "cannot be added while the broker runs",
        ),
        ({"listeners": f"{INTERNAL},EXTERNAL://0.0.0.0:9091"}, "INTERNAL and EXTERNAL have the same port, 9091"),
        ({"listeners": f"{INTERNAL},EXTERNAL://0.0.0.0:9094,CONTROLLER://:1"}, "name of a controller's listener"),
        ({"listeners": f"{INTERNAL},EXTERNAL"}, "must be NAME://host:port"),
        ({"advertised.listeners": "INTERNAL://pod-0:9091,EXTERNAL://0.0.0.0:1"}, "clients cannot reach 0.0.0.0"),
    ],
)
def test_invalid_listeners_are_rejected_with_instructions(changes: Mapping[str, str], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        dynamic_listeners(settings(), {**NEW, **changes})


def test_limits_of_an_added_listener_apply_and_those_of_a_removed_one_do_not() -> None:
    limits = {"listener.name.external.max.connections": "7", "listener.name.clients.max.connections": "8"}
    effective = effective_config(settings(), {}, NEW | limits)
    assert effective.listeners == dynamic_listeners(settings(), NEW)
    assert effective.values["listener.name.external.max.connections"] == 7
    assert "listener.name.clients.max.connections" not in effective.values


def test_stored_listeners_that_conflict_with_the_file_are_all_ignored_and_reported() -> None:
    changed = settings(listeners="INTERNAL://0.0.0.0:19091", **{"advertised.listeners": "INTERNAL://pod-0:19091"})
    effective = effective_config(changed, {}, NEW | {"max.connections": "5"})
    assert effective.listeners == static_listeners(changed)
    assert effective.config.listeners == ("INTERNAL://0.0.0.0:19091",)
    assert effective.config.max_connections == 5
    (told,) = effective.ignored
    assert "cannot be removed or changed" in told
    assert "the broker uses the listeners of the properties file" in told


def test_proxies_are_trusted_by_a_listener_of_clients_only() -> None:
    key = "listener.name.{}.proxy.protocol.trusted"
    effective = effective_config(settings(), {key.format("clients"): "10.0.0.0/8, ::1"}, {})
    assert effective.values[key.format("clients")] == ("10.0.0.0/8", "::1")
    refused = effective_config(settings(), {key.format("internal"): "10.0.0.0/8"}, {})
    assert key.format("internal") not in refused.values
    assert "brokers connect to each other by this listener" in refused.ignored[0]
    for key_name, value, expected in (
        (key.format("internal"), "10.0.0.0/8", "brokers connect to each other by this listener"),
        (key.format("clients"), "10.0.0.1/8", "host bits set"),
        (key.format("clients"), "balancer", "must be networks such as 10.0.0.0/8"),
        ("proxy.protocol.trusted", "10.0.0.0/8", "without listener.name.<name>. before it"),
    ):
        with pytest.raises(ConfigError, match=expected.replace(".", r"\.")):
            settings(**{key_name: value})
