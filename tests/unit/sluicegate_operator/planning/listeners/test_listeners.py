"""The listeners that brokers have and should have open, and the changes sent to them."""

from dataclasses import replace
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, BrokerListener, parse_resource
from sluicegate_operator.planning.layout.cluster_layout import PROTOCOLS, plan_cluster
from sluicegate_operator.planning.layout.listener_security import security_properties
from sluicegate_operator.planning.layout.restart_reasons import NodeRevision, node_revision
from sluicegate_operator.planning.listeners.exposure import Address
from sluicegate_operator.planning.listeners.listeners import (
    BrokerSeen,
    ListenersChange,
    ListenerSeen,
    OpenListener,
    OpenListeners,
    after_restart,
    asked_keys,
    change_to,
    differing,
    listener_ports,
    listener_seen,
    one_by_one,
    open_listeners,
    wanted_listeners,
    with_one,
)
from tests.support.manifests.bad_manifests import cluster, listener

HOST = "10.0.0.1"
TRUSTED = "listener.name.external.proxy.protocol.trusted"
INTERNAL = OpenListener(9091, Address(HOST, 9091))
EXTERNAL = OpenListener(9094, Address(HOST, 9094))
OTHER = OpenListener(9095, Address("node-7", 30095))


@pytest.mark.parametrize(
    ("value", "ports"),
    [
        ("INTERNAL://10.0.0.1:9091,EXTERNAL://10.0.0.1:9094", {"INTERNAL": 9091, "EXTERNAL": 9094}),
        ("PLAINTEXT://:9092", {"PLAINTEXT": 9092}),
        ("external://[::1]:9094, B://h:1", {"EXTERNAL": 9094, "B": 1}),
        ("", {}),
        (None, {}),
        ("nonsense", {}),
    ],
)
def test_a_brokers_listeners_are_read_as_kafka_writes_them(value: str | None, ports: dict[str, int]) -> None:
    assert listener_ports(value) == ports


def test_a_host_that_is_left_out_is_the_brokers_own() -> None:
    said = {"listeners": "INTERNAL://10.0.0.1:9091,EXTERNAL://:9094", "advertised.listeners": "INTERNAL://:9091"}
    assert open_listeners(said, HOST) == {"INTERNAL": INTERNAL, "EXTERNAL": EXTERNAL}
    assert open_listeners({"listeners": "A://[::1]:1"}, HOST) == {"A": OpenListener(1, Address("::1", 1))}


def test_trusted_networks_are_read_in_any_order() -> None:
    said = {"listeners": "EXTERNAL://:9094", TRUSTED: "192.0.2.7/32, 10.0.0.0/8"}
    assert open_listeners(said, HOST)["EXTERNAL"].trusted == ("10.0.0.0/8", "192.0.2.7/32")
    assert asked_keys(["EXTERNAL"]) == ["listeners", "advertised.listeners", PROTOCOLS, TRUSTED]


def parsed(*documents: dict[str, object]) -> dict[str, BrokerListener]:
    found = [parse_resource(document) for document in documents]
    return {one.name: one for one in found if isinstance(one, BrokerListener)}


def wanted(told: dict[str, Address], now: OpenListeners, **spec: Any) -> dict[str, OpenListener]:
    of = parse_resource(cluster())
    assert isinstance(of, BrokerCluster)
    listeners = parsed(listener(**spec))
    return wanted_listeners(plan_cluster(of, list(listeners.values())), listeners, HOST, told, now)


def test_the_advertised_address_stays_until_the_new_one_is_known() -> None:
    node = Address("203.0.113.9", 30094)
    assert wanted({"EXTERNAL": node}, {})["EXTERNAL"].advertised == node
    assert wanted({}, {"EXTERNAL": replace(EXTERNAL, advertised=node)})["EXTERNAL"].advertised == node
    assert wanted({}, {})["EXTERNAL"].advertised == Address(HOST, 9094), "somebody inside may have use for it"


def test_the_listener_of_brokers_is_as_the_file_has_it() -> None:
    assert wanted({}, {"INTERNAL": replace(INTERNAL, advertised=Address("old", 9091))})["INTERNAL"] == INTERNAL
    assert differing({"INTERNAL": replace(INTERNAL, port=1)}, {"INTERNAL": INTERNAL}) == ()


def test_ranges_are_wanted_as_brokers_write_them() -> None:
    assert wanted({}, {}, proxyProtocol={"trusted": ["10.1.2.3/8"]})["EXTERNAL"].trusted == ("10.0.0.0/8",)


def test_a_broker_with_the_wanted_listeners_gets_no_change() -> None:
    assert (
        change_to({"INTERNAL": INTERNAL, "EXTERNAL": EXTERNAL}, {"INTERNAL": INTERNAL, "EXTERNAL": EXTERNAL}, HOST)
        is None
    )


def test_a_new_listener_is_opened_with_all_that_belongs_to_it_and_no_address_of_the_pod_is_kept() -> None:
    trusting = replace(OTHER, trusted=("10.0.0.0/8",))
    change = change_to(
        {"INTERNAL": INTERNAL, "A": EXTERNAL}, {"INTERNAL": INTERNAL, "A": EXTERNAL, "B": trusting}, HOST
    )
    assert change == ListenersChange(
        {
            "listeners": "INTERNAL://:9091,A://:9094,B://:9095",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,A:PLAINTEXT,B:PLAINTEXT",
            "advertised.listeners": "INTERNAL://:9091,A://:9094,B://node-7:30095",
            "listener.name.b.proxy.protocol.trusted": "10.0.0.0/8",
        }
    )


def test_a_secured_listener_keeps_its_protocol_when_another_one_is_opened() -> None:
    secured = replace(EXTERNAL, protocol="SASL_SSL")
    said = {"listeners": "A://:9094", "listener.security.protocol.map": "CONTROLLER:PLAINTEXT, a:sasl_ssl"}
    now = {"INTERNAL": INTERNAL, **open_listeners(said, HOST)}
    assert now["A"] == secured
    change = change_to(now, {"INTERNAL": INTERNAL, "A": secured, "B": OTHER}, HOST)
    assert change is not None
    assert change.set["listener.security.protocol.map"] == (
        "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,A:SASL_SSL,B:PLAINTEXT"
    )


def test_a_secured_listener_waits_for_the_restart_of_a_broker_that_does_not_have_its_keys() -> None:
    secured = parsed(listener(authentication={"type": "scram-sha-512"}))
    started_with = node_revision(security_properties(secured.values()))
    assert after_restart(secured, NodeRevision(), {}) == after_restart(secured, None, {}) == {"EXTERNAL"}
    assert after_restart(secured, started_with, {}) == frozenset()
    assert after_restart(secured, NodeRevision(), {"EXTERNAL": EXTERNAL}) == frozenset(), "it is open"
    assert after_restart(parsed(listener()), NodeRevision(), {}) == frozenset()
    broker = BrokerSeen(0, {"INTERNAL": INTERNAL}, {"EXTERNAL": EXTERNAL}, restarts=frozenset({"EXTERNAL"}))
    assert not broker.applying
    seen = listener_seen("EXTERNAL", [broker])
    assert (seen.restarts, seen.lacking) == ((0,), ())


def test_a_removed_listeners_own_keys_are_removed_too() -> None:
    change = change_to({"INTERNAL": INTERNAL, "EXTERNAL": EXTERNAL}, {"INTERNAL": INTERNAL}, HOST)
    assert change is not None
    assert change.set["listeners"] == "INTERNAL://:9091"
    assert change.delete == (TRUSTED,)


def test_another_address_alone_opens_nothing_anew() -> None:
    now = {"INTERNAL": INTERNAL, "B": OTHER}
    moved = {"INTERNAL": INTERNAL, "B": replace(OTHER, advertised=Address("2001:db8::1", 30095))}
    assert change_to(now, moved, HOST) == ListenersChange(
        {"advertised.listeners": "INTERNAL://:9091,B://[2001:db8::1]:30095"}
    )


def test_the_proxy_protocol_is_taken_away_where_the_file_still_has_it() -> None:
    now = {"EXTERNAL": replace(EXTERNAL, trusted=("10.0.0.0/8",))}
    change = change_to(now, {"EXTERNAL": EXTERNAL}, HOST)
    assert change is not None
    assert change.set[TRUSTED] == ""


def test_single_changes_begin_with_what_makes_room() -> None:
    now: OpenListeners = {"INTERNAL": INTERNAL, "Z": EXTERNAL}
    want: OpenListeners = {"INTERNAL": INTERNAL, "A": EXTERNAL, "B": OTHER}
    assert one_by_one(now, want) == ("Z", "A", "B")
    for name in one_by_one(now, want):
        now = with_one(now, want, name)
    assert now == want


def test_a_listener_counts_as_open_if_the_broker_reports_the_wanted_endpoint() -> None:
    want = {"EXTERNAL": EXTERNAL}
    brokers = [
        BrokerSeen(0, {"EXTERNAL": EXTERNAL}, want, waits={"EXTERNAL": "broker 0 waits"}),
        BrokerSeen(1, {}, want, refused={"EXTERNAL": "taken", "OTHER": "no"}),
        BrokerSeen(2, {"EXTERNAL": OTHER}, want),
        BrokerSeen(3, None, want),
    ]
    assert listener_seen("EXTERNAL", brokers) == ListenerSeen(
        {0: EXTERNAL.advertised}, (1, 2), (3,), {1: "taken"}, ("broker 0 waits",)
    )
    assert [broker.settled for broker in brokers] == [True, False, False, False]


@pytest.mark.parametrize(
    ("now", "refused", "applying"),
    [
        ({"EXTERNAL": EXTERNAL, "OTHER": OTHER}, {}, False),
        ({"EXTERNAL": EXTERNAL}, {}, True),
        ({"EXTERNAL": EXTERNAL}, {"OTHER": "taken"}, False),
        ({}, {"OTHER": "taken"}, True),
        (None, {}, True),
    ],
)
def test_a_broker_may_still_show_listeners_that_it_has_not_refused(
    now: OpenListeners | None, refused: dict[str, str], applying: bool
) -> None:
    assert BrokerSeen(0, now, {"EXTERNAL": EXTERNAL, "OTHER": OTHER}, refused).applying is applying
