"""Limits that name hosts: resolved, applied by address, reported if they cannot be resolved."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import cast
from unittest.mock import Mock

import pytest

from broker_runtime.config import broker_settings
from broker_runtime.config.in_force.effective import effective_config
from broker_runtime.errors import ConfigError
from broker_runtime.metadata.areas.quotas import IP_RATE_KEY, ClientQuotaRecord
from broker_runtime.network.quotas.host_names import HostNames
from broker_runtime.node.limits_in_force import LimitsInForce
from connection_limits.groups.connection_group import AddressGroupLimits
from connection_limits.settings import QuotaSettings
from tests.support.worlds.controller import Metadata

pytestmark = pytest.mark.virtual_time
OVERRIDES = "max.connections.per.ip.overrides"


class Names:
    def __init__(self, **known: Sequence[str]) -> None:
        self.known: dict[str, Sequence[str]] = dict(known)
        self.asked: list[str] = []

    async def addresses(self, names: Iterable[str]) -> Mapping[str, Sequence[str]]:
        self.asked += names
        await asyncio.sleep(0)
        return {name: self.known[name] for name in names if name in self.known}


class Bench:
    """The limits of a broker with these static keys, and its calls of the server."""

    def __init__(self, names: Names, **static: str) -> None:
        self.settings = broker_settings({"node.id": "1"} | {key.replace("_", "."): v for key, v in static.items()})
        self.metadata = Metadata()
        self.names = names
        self.overrides: Mapping[str, int] = {}
        self.rates: dict[str | None, int | None] = {}
        self.groups: dict[str, AddressGroupLimits] = {}
        self.members: dict[tuple[str, str], float] = {}
        self.told: list[tuple[str, str, float | None]] = []
        self.limits = LimitsInForce(
            self.settings,
            effective_config(self.settings, {}, {}),
            self.metadata.image,
            self,
            cast("HostNames", names),
        )

    def update_limits(self, quotas: QuotaSettings) -> None:
        self.overrides = quotas.max_connections_per_ip_overrides

    def update_ip_rate(self, ip: str | None, rate: int | None) -> None:
        self.rates[ip] = rate

    @property
    def connection_groups(self) -> "Bench":
        return self

    def set_limits(self, name: str, limits: AddressGroupLimits) -> None:
        self.groups[name] = limits

    def set_member(self, name: str, member: str, number: float | None) -> None:
        if member == "odd" and number is not None:
            raise ValueError(f"{member} is odd")
        self.told.append((name, member, number))
        self.members.pop((name, member), None)
        if number is not None:
            self.members[name, member] = number

    def set(self, **dynamic: str) -> None:
        stored = {key.replace("_", "."): value for key, value in dynamic.items()}
        self.limits.configure(effective_config(self.settings, stored, {}))

    def rate(self, name: str, rate: float | None) -> None:
        self.metadata.write(ClientQuotaRecord((("ip", name),), IP_RATE_KEY, rate))
        for _ in self.limits.on_ip_quotas({name}):
            pass


async def until(seen: Callable[[], bool]) -> None:
    async with asyncio.timeout(3600):
        while not seen():  # noqa: ASYNC110 - on virtual time
            await asyncio.sleep(1)


async def test_host_names_of_the_file_are_resolved_before_listeners_open() -> None:
    bench = Bench(Names(localhost=("127.0.0.1", "::1")), max_connections_per_ip_overrides="localhost:2,10.0.0.1:3")
    await bench.limits.start()
    assert bench.overrides == {"127.0.0.1": 2, "::1": 2, "10.0.0.1": 3}


async def test_a_name_in_the_file_that_is_unknown_ends_the_start() -> None:
    with pytest.raises(ConfigError, match=r"overrides: nope\.example cannot be resolved; correct the name"):
        await Bench(Names(), max_connections_per_ip_overrides="nope.example:2").limits.start()


async def test_names_that_change_are_resolved_again() -> None:
    names = Names(shop=("10.0.0.1",))
    bench = Bench(names)
    bench.set(max_connections_per_ip_overrides="shop:5,10.0.0.9:1")
    assert bench.overrides == {"10.0.0.9": 1}
    await until(lambda: bench.overrides == {"10.0.0.1": 5, "10.0.0.9": 1})
    bench.set()
    assert bench.overrides == {}
    names.known["shop"] = ("10.0.0.2",)
    bench.set(max_connections_per_ip_overrides="shop:5")
    await until(lambda: bench.overrides == {"10.0.0.2": 5})
    await bench.limits.close()


async def test_an_unknown_host_name_is_reported_and_resolved_again_until_it_is_known() -> None:
    names = Names()
    bench = Bench(names)
    bench.set(max_connections_per_ip_overrides="later:5,10.0.0.9:1")
    await until(lambda: bench.limits.problems != [])
    assert bench.limits.problems == ["the limit of host later is not enforced: the name cannot be resolved"]
    assert bench.overrides == {"10.0.0.9": 1}
    names.known["later"] = ("10.0.0.3",)
    await until(lambda: "10.0.0.3" in bench.overrides)
    assert bench.limits.problems == []
    assert len(names.asked) < 5


async def test_the_rate_of_a_host_is_that_of_its_addresses() -> None:
    bench = Bench(Names(shop=("10.0.0.1", "10.0.0.2")))
    bench.rate("shop", 5.0)
    await until(lambda: bench.rates == {"10.0.0.1": 5, "10.0.0.2": 5})
    bench.rate("shop", None)
    assert bench.rates == {"10.0.0.1": None, "10.0.0.2": None}
    bench.rate("::ffff:10.0.0.7", 3.0)
    assert bench.rates["10.0.0.7"] == 3
    await bench.limits.close()


async def test_stored_values_that_cannot_be_used_are_told() -> None:
    bench = Bench(Names())
    bench.set(max_connections="x", max_connections_per_ip_overrides="10.0.0.9:1")
    assert bench.overrides == {"10.0.0.9": 1}
    assert ["max.connections" in problem for problem in bench.limits.problems] == [True]


def group_record(name: str, key: str, value: float | None, member: str | None = None) -> ClientQuotaRecord:
    entity = (("connection-group", name),) if member is None else (("connection-group", name), ("ip", member))
    return ClientQuotaRecord(entity, key, value)


async def test_groups_are_applied_in_pieces_and_invalid_members_are_omitted_and_reported() -> None:
    bench = Bench(Names())
    many = [group_record("g", "member", 1.0, f"10.0.{n // 250}.{n % 250}") for n in range(250)]
    limits = [group_record("g", IP_RATE_KEY, 5.0), group_record("g", "shared", 1.0)]
    bench.metadata.write(*limits, *many, group_record("g", "member", 1.0, "odd"))
    changed: set[tuple[str, str | None]] = {("g", None), ("g", "odd"), *(("g", r.entity[1][1]) for r in many)}
    pieces = bench.limits.on_connection_groups(changed)
    next(pieces)
    assert len(changed) == 152
    assert len(list(pieces)) == 2
    assert not changed
    assert bench.groups == {"g": AddressGroupLimits(5, shared=True)}
    assert len(bench.members) == 250
    assert bench.limits.problems == ["1 members of connection groups are not used"]
    bench.metadata.write(
        group_record("g", "member", None, "odd"), *(group_record("g", k, None) for k in ("shared", IP_RATE_KEY))
    )
    for _ in bench.limits.on_connection_groups({("g", None)}):
        pass
    assert bench.groups == {"g": AddressGroupLimits()}


async def test_additions_to_groups_are_applied_before_removals() -> None:
    bench = Bench(Names())
    addresses = [f"10.0.0.{n}" for n in range(200)]
    bench.metadata.write(*(group_record("new", "member", 1.0, address) for address in addresses))
    changed: set[tuple[str, str | None]] = {(name, address) for name in ("new", "old") for address in addresses}
    for _ in bench.limits.on_connection_groups(changed):
        pass
    assert [number for _, _, number in bench.told] == [1.0] * 200 + [None] * 200


async def test_a_members_current_number_is_applied_at_each_change() -> None:
    bench = Bench(Names())
    for number in (7.0, 8.0):
        bench.metadata.write(group_record("g", "member", number, "10.0.0.1"))
        for _ in bench.limits.on_connection_groups({("g", "10.0.0.1")}):
            pass
    assert bench.told == [("g", "10.0.0.1", 7.0), ("g", "10.0.0.1", 8.0)]


async def test_what_cannot_be_taken_over_is_left_to_be_tried_again() -> None:
    bench = Bench(Names())
    bench.metadata.write(group_record("g", "member", 1.0, "::1"))
    changed: set[tuple[str, str | None]] = {("g", "::1"), ("g", "::2")}
    bench.told = None  # type: ignore[assignment]
    with pytest.raises(AttributeError):
        for _ in bench.limits.on_connection_groups(changed):
            pass
    assert changed == {("g", "::1"), ("g", "::2")}


async def test_many_quotas_of_addresses_come_into_force_in_pieces() -> None:
    bench = Bench(Names())
    names = {f"10.0.{number // 256}.{number % 256}" for number in range(1_000)}
    for name in sorted(names):
        bench.metadata.write(ClientQuotaRecord((("ip", name),), IP_RATE_KEY, 5.0))
    changed = set[str | None](names)
    in_force = []
    for _ in bench.limits.on_ip_quotas(changed):
        in_force.append(len(bench.rates))
        assert len(changed) == len(names) - len(bench.rates), "what is in force is taken out"
    assert max(after - before for before, after in pairwise([0, *in_force])) <= 50
    assert len(bench.rates) == len(names)


async def test_a_quota_that_cannot_be_applied_is_not_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(Names())
    monkeypatch.setattr(bench, "update_ip_rate", Mock(side_effect=RuntimeError("a mistake")))
    changed: set[str | None] = {"10.0.0.1"}
    with pytest.raises(RuntimeError, match="a mistake"):
        list(bench.limits.on_ip_quotas(changed))
    assert changed == {"10.0.0.1"}
