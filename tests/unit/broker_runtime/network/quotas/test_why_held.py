"""The explanation of an address and of groups: the limit in effect, since when, and the counters."""

from typing import Any

from broker_runtime.network.quotas.limits_held import LimitsHeld
from broker_runtime.network.quotas.why_held import GROUPS_PER_ANSWER, WhyHeld
from connection_limits.groups.connection_group import NO_LIMITS, AddressGroupLimits
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import QuotaSettings

NOW = 5_000_000
WALL_MS = 1_700_000_000_000
A = "10.0.0.1"


def quotas_of(**groups: AddressGroupLimits) -> ConnectionQuotas:
    quotas = ConnectionQuotas(QuotaSettings(quota_window_num=2, max_connections_per_ip=30), NOW - 60_000)
    quotas.add_listener("EXTERNAL", NOW)
    for name, limits in groups.items():
        quotas.addresses.groups.set_limits(name, limits, NOW - 2_000)
    return quotas


def told(quotas: ConnectionQuotas, ip: str = A) -> dict[str, Any]:
    return WhyHeld(quotas, NOW, WALL_MS).address(ip)


def test_the_groups_that_hold_an_address_and_those_that_look_on() -> None:
    quotas = quotas_of(
        each=AddressGroupLimits(rate=2), all=AddressGroupLimits(max_connections=5, shared=True, observe=True)
    )
    quotas.addresses.groups.add_member("each", "10.0.0.0/24", NOW - 1_000)
    quotas.addresses.groups.add_member("all", "10.0.0.0/8", NOW - 5_000)
    for ip in (A, A, A, "10.9.9.9"):
        quotas.on_accepted("EXTERNAL", ip, NOW)
    found = told(quotas)
    assert {key: value for key, value in found.items() if key not in ("broker", "listeners")} == {
        "address": A,
        "connections": 2,
        "max_connections_per_ip": 30,
        "holders": [
            {
                "kind": "connection-group",
                "group": "each",
                "member": "10.0.0.0/24",
                "prefix": 24,
                "mode": "Enforce",
                "shared": False,
                "connection_creation_rate": 2,
                "max_connections": None,
                "cluster": None,
                "rate": 2.0,
                "connections": 2,
                "since": "2023-11-14T22:13:19.000Z",
                "held": {"delayed": 1},
                "would_hold": {},
            }
        ],
        "observers": [
            {
                "kind": "connection-group",
                "group": "all",
                "member": "10.0.0.0/8",
                "prefix": 8,
                "mode": "Observe",
                "shared": True,
                "connection_creation_rate": None,
                "max_connections": 5,
                "cluster": None,
                "rate": 0.0,
                "connections": 3,
                "since": "2023-11-14T22:13:18.000Z",
                "held": {},
                "would_hold": {},
            }
        ],
    }


def test_a_rate_of_the_address_itself_and_that_of_all_others() -> None:
    quotas = quotas_of(each=AddressGroupLimits(rate=2))
    quotas.addresses.groups.add_member("each", "2001:db8::1", NOW)
    quotas.addresses.update_rate("2001:db8::1", 7, NOW - 500)
    quotas.addresses.update_rate("2001:db8::1", 7, NOW)
    quotas.addresses.update_rate(None, 9, NOW)
    first, second = told(quotas, "2001:db8::1")["holders"]
    assert (first["kind"], first["connection_creation_rate"], first["prefix"]) == ("ip", 7, 128)
    assert first["since"] == "2023-11-14T22:13:19.500Z", "the same rate again is the same rate"
    assert (second["group"], second["prefix"]) == ("each", 128)
    (default,) = told(quotas)["holders"]
    assert (default["kind"], default["connection_creation_rate"], default["prefix"]) == ("default", 9, 0)
    quotas.addresses.update_rate(None, None, NOW)
    assert told(quotas)["holders"] == []


def test_connections_that_the_rate_of_an_address_has_refused_are_counted() -> None:
    quotas = quotas_of()
    quotas.addresses.update_rate(A, 1, NOW)
    quotas.addresses.update_rate(None, 1, NOW)
    for ip in (A, A, A, A, "10.9.9.9", "10.9.9.9", "10.9.9.9"):
        quotas.on_accepted("EXTERNAL", ip, NOW)
    assert [holder["held"] for holder in told(quotas)["holders"]] == [{"rate": 3}]
    assert [holder["held"] for holder in told(quotas, "10.9.9.9")["holders"]] == [{"rate": 2}]
    quotas.addresses.update_rate(A, None, NOW)
    quotas.addresses.update_rate(A, 1, NOW)
    assert [holder["held"] for holder in told(quotas)["holders"]] == [{"rate": 0}], "a new limit has held nobody"


def test_the_limits_that_all_clients_meet_are_told_with_each_address() -> None:
    quotas = quotas_of()
    found = told(quotas)
    limits = LimitsHeld(quotas, NOW).of_all_clients()
    assert (found["broker"], found["listeners"]) == (limits["broker"], limits["listeners"])


def test_groups_come_by_name_and_so_many_at_a_time() -> None:
    names = [f"{n:04}" for n in range(GROUPS_PER_ANSWER + 3)]
    quotas = quotas_of(**dict.fromkeys(names, AddressGroupLimits(rate=2)))
    quotas.addresses.groups.set_limits("0001", NO_LIMITS, NOW)
    quotas.addresses.groups.add_member("0000", "::/0", NOW)
    why = WhyHeld(quotas, NOW, WALL_MS)
    first: dict[str, Any] = why.groups("")
    assert len(first["groups"]) == GROUPS_PER_ANSWER
    assert first["groups"]["0000"] == why.group("0000")
    rest: dict[str, Any] = why.groups(first["next"])
    assert [*first["groups"], *rest["groups"]] == [name for name in names if name != "0001"]
    assert rest["next"] is None
    assert why.group("0000") == {
        "mode": "Enforce",
        "shared": False,
        "connection_creation_rate": 2,
        "max_connections": None,
        "cluster": None,
        "members": 1,
        "connections": 0,
        "since": "2023-11-14T22:13:18.000Z",
        "held": {},
        "would_hold": {},
    }
    assert why.group("0001") is None
