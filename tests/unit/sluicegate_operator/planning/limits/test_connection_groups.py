"""Limits of many addresses as client quotas of an entity type of our brokers."""

from uuid import UUID

from sluicegate_operator.planning.limits.connection_groups import (
    ANYBODY,
    OBSERVE,
    canonical_member,
    group_limits,
    group_name,
    membership,
    never_looser,
    number_of_pod,
)
from sluicegate_operator.planning.limits.limits import ip_rate
from tests.support.oracles.limits_model import group_of, member_of

GROUP = (("connection-group", "shop/ingest"),)


def test_a_group_has_the_limits_and_what_kind_it_is() -> None:
    assert group_limits(group_name("shop", "ingest"), 50, None, shared=False, observe=False) == {
        (GROUP, "connection_creation_rate"): 50.0
    }
    assert group_limits("shop/ingest", 50, 9, shared=True, observe=True) == {
        (GROUP, "connection_creation_rate"): 50.0,
        (GROUP, "max_connections"): 9.0,
        (GROUP, "shared"): 1.0,
        (GROUP, "observe"): 1.0,
    }
    assert group_limits("shop/ingest", None, None, shared=True, observe=True) == {}


def test_a_member_is_an_entity_of_two_components() -> None:
    [(key, number)] = membership("shop/ingest", {"10.0.0.0/8": 7.0}).items()
    assert number == 7
    assert key == (((*GROUP, ("ip", "10.0.0.0/8"))), "member")
    assert (group_of(key), member_of(key)) == ("shop/ingest", "10.0.0.0/8")
    assert (group_of((GROUP, "shared")), member_of((GROUP, "shared"))) == ("shop/ingest", None)
    assert group_of(ip_rate("10.0.0.1")) is None
    assert group_of("max.connections") is None


def test_the_number_of_a_pod_is_its_own_and_kept_by_a_double() -> None:
    uids = [str(UUID(int=number)) for number in range(1_000)]
    numbers = [number_of_pod(uid) for uid in uids]
    assert numbers == [number_of_pod(uid) for uid in uids]
    assert len(set(numbers)) == len(uids)
    assert all(ANYBODY < number < 2**53 and number.is_integer() for number in numbers)


def test_members_have_one_spelling() -> None:
    assert canonical_member("10.0.0.1/32") == canonical_member("10.0.0.1") == "10.0.0.1"
    assert canonical_member("2001:DB8:0::/32") == "2001:db8::/32"
    assert canonical_member("2001:db8::1/128") == "2001:db8::1"


def test_a_group_that_is_enforced_is_not_told_to_observe_while_limits_may_not_become_looser() -> None:
    wanted = group_limits("a", 5, None, shared=False, observe=True) | group_limits(
        "b", 5, None, shared=False, observe=True
    )
    seen = group_limits("a", 5, None, shared=False, observe=False) | group_limits(
        "b", 9, None, shared=False, observe=True
    )
    kept = never_looser(wanted, seen)
    assert wanted.keys() - kept.keys() == {((("connection-group", "a"),), OBSERVE)}
