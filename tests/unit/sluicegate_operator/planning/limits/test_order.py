"""The order of changes: a limit that replaces another one is set before the other is lifted."""

from sluicegate_operator.planning.limits.connection_groups import group_limits, membership
from sluicegate_operator.planning.limits.limits import (
    COUNT_PER_IP_OVERRIDES,
    Action,
    LimitKey,
    QuotaKey,
    SetBrokerConfigs,
    SetQuota,
    ip_rate,
)
from sluicegate_operator.planning.limits.order import in_phases, kept_back

GROUP = group_limits("default/q", 300, 9, shared=True, observe=False, of_cluster=True)
MEMBERS = membership("default/q", {"10.0.0.1": 1.0})
ADDRESS: dict[QuotaKey, float] = {ip_rate("10.0.0.1"): 5.0}
COUNTS = SetBrokerConfigs(None, {COUNT_PER_IP_OVERRIDES: "10.0.0.1:9"})
NO_COUNTS = SetBrokerConfigs(None, {}, (COUNT_PER_IP_OVERRIDES,))


def sets(values: dict[QuotaKey, float]) -> list[Action]:
    return [SetQuota(key, value) for key, value in values.items()]


def lifts(values: dict[QuotaKey, float]) -> list[Action]:
    return [SetQuota(key, None) for key in values]


def test_an_address_keeps_its_quota_until_its_group_is_set() -> None:
    phases = in_phases([NO_COUNTS, *lifts(ADDRESS), *sets(GROUP | MEMBERS)])
    assert phases == [sets(GROUP | MEMBERS), [NO_COUNTS], lifts(ADDRESS)]


def test_an_address_keeps_its_group_until_its_quota_and_its_count_are_set() -> None:
    phases = in_phases([COUNTS, *sets(ADDRESS), *lifts(GROUP | MEMBERS)])
    assert phases == [sets(ADDRESS), [COUNTS], lifts(GROUP | MEMBERS)]


def test_a_count_stays_until_the_group_that_replaces_it_is_set() -> None:
    assert in_phases([NO_COUNTS, *sets(GROUP | MEMBERS)]) == [sets(GROUP | MEMBERS), [NO_COUNTS]]


def test_changes_that_move_no_limit_are_made_at_once() -> None:
    rate = SetBrokerConfigs(None, {"max.connections": "5"})
    for actions in (
        [rate, *sets(GROUP | MEMBERS)],
        [COUNTS, *sets(ADDRESS)],
        lifts(GROUP | MEMBERS),
        lifts(ADDRESS | membership("default/other", {"10.0.0.7": 3.0})),
        # A pod has gone from a group, and another one has come into it.
        [*sets(membership("default/q", {"10.0.0.2": 7.0})), *lifts(MEMBERS)],
    ):
        assert in_phases(actions) == [actions]
    assert in_phases([]) == []


def test_an_entity_is_never_split() -> None:
    ((entity, _), *_) = GROUP
    changed = [SetQuota((entity, "connection_creation_rate"), 5.0), SetQuota((entity, "cluster"), None)]
    assert in_phases([*changed, *lifts(ADDRESS)]) == [changed, lifts(ADDRESS)]


def test_a_limit_stays_if_the_one_that_replaces_it_is_refused() -> None:
    other: dict[QuotaKey, float] = {ip_rate("10.0.0.2"): 5.0}
    group = group_limits("default/other", 5, None, shared=False, observe=False)
    sent = sets(GROUP | MEMBERS)
    refused: set[LimitKey] = {*GROUP}
    assert kept_back([NO_COUNTS, *lifts(ADDRESS | other | group)], sent, refused) == ADDRESS.keys()
    assert kept_back(lifts(ADDRESS), sent, {*MEMBERS}) == ADDRESS.keys()
    assert kept_back(lifts(GROUP | MEMBERS | group), sets(ADDRESS), {*ADDRESS}) == {*GROUP, *MEMBERS}
    assert kept_back(lifts(other), sent, refused) == frozenset()
    assert kept_back([NO_COUNTS], sent, refused) == frozenset()
