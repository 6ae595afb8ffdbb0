"""Limits beside those of other owners: ours are remembered and read back, and other entries stay in a shared key."""

import pytest

from sluicegate_operator.planning.limits.limits import COUNT_PER_IP_OVERRIDES, DesiredLimits, ip_rate
from sluicegate_operator.quotas.shared_limits import Overrides, beside_others, keys_of, mine_of, overridden, those_of

ALL = DesiredLimits(
    {"max.connections": "9", COUNT_PER_IP_OVERRIDES: "10.0.0.1:5,2001:db8::1:7"},
    {ip_rate("10.0.0.1"): 3.0, ip_rate(None): 50.0},
    exclusive=False,
)


def test_each_limit_is_written_down_by_itself_and_is_its_key_again() -> None:
    mine = mine_of(ALL)
    assert mine == {
        "max.connections",
        f"{COUNT_PER_IP_OVERRIDES} 10.0.0.1",
        f"{COUNT_PER_IP_OVERRIDES} 2001:db8::1",
        "connection_creation_rate ip 10.0.0.1",
        "connection_creation_rate ip",
    }
    assert keys_of(mine) == {"max.connections", COUNT_PER_IP_OVERRIDES, ip_rate("10.0.0.1"), ip_rate(None)}
    assert overridden(mine) == {"10.0.0.1", "2001:db8::1"}
    assert mine_of(DesiredLimits(exclusive=False)) == frozenset()


@pytest.mark.parametrize(
    ("wanted", "addresses", "default", "in_files", "set_to"),
    [
        ("a:5", {"a"}, None, [], "a:5"),
        ("a:5", {"a"}, "b:1", [], "b:1,a:5"),
        ("a:5", {"a"}, "a:5, b:1", [], "a:5, b:1"),
        ("a:5", {"a"}, "b:1,a:4", ["c:9"], "b:1,a:5"),
        ("a:5", {"a"}, None, ["c:9"], "c:9,a:5"),
        ("a:5", {"a"}, None, ["a:9"], "a:5"),
        ("", {"a"}, "b:1,a:5", [], "b:1"),
        ("", {"a"}, "a:5", [], None),
        ("", {"a"}, "c:9,a:5", ["c:9"], None),
        ("", {"a"}, "a:5", ["a:9"], None),
        ("", set(), "b:1", [], None),
        ("a:5", {"a"}, None, ["b:4,c:9", "c:8", "d:1"], "b:4,c:8,d:1,a:5"),
        ("", {"a"}, "b:4,c:8,d:1,a:5", ["b:4,c:9", "c:8", "d:1"], None),
    ],
)
def test_entries_of_others_stay(
    wanted: str, addresses: set[str], default: str | None, in_files: list[str], set_to: str | None
) -> None:
    configs = {"max.connections": "9"} | ({COUNT_PER_IP_OVERRIDES: wanted} if wanted else {})
    found = beside_others(DesiredLimits(configs, exclusive=False), addresses, Overrides(default, (), in_files))
    assert found.configs.get(COUNT_PER_IP_OVERRIDES) == set_to
    assert found.configs["max.connections"] == "9"


@pytest.mark.parametrize(("wanted", "set_to"), [("a:5", "b:1,c:2,a:5"), ("", "b:1,c:2")])
def test_entries_of_one_broker_stay_for_all_as_strict_as_they_were(wanted: str, set_to: str) -> None:
    configs = {COUNT_PER_IP_OVERRIDES: wanted} if wanted else {}
    seen = Overrides("b:1,c:9", ["c:2,a:7", "b:3"], ["d:4"])
    found = beside_others(DesiredLimits(configs, exclusive=False), {"a"}, seen)
    assert found.configs[COUNT_PER_IP_OVERRIDES] == set_to


def test_each_limit_is_kept_separately() -> None:
    kept = those_of(ALL, frozenset({"max.connections", f"{COUNT_PER_IP_OVERRIDES} 2001:db8::1"}))
    assert kept == DesiredLimits({"max.connections": "9", COUNT_PER_IP_OVERRIDES: "2001:db8::1:7"}, exclusive=False)
    assert those_of(ALL, mine_of(ALL)) == ALL
    assert those_of(ALL, frozenset()) == DesiredLimits(exclusive=False)
