"""Groups of a simulated cluster under faults: no partition has two owners, no commit is lost, and all converge."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from broker_runtime.coordination.replicated_log import ReplicatedLog
from broker_runtime.groups.classic import rebalance
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.consumer import classic_members, upgrading
from broker_runtime.groups.consumer.state.owners import PartitionOwners
from broker_runtime.groups.environment import GroupEnvironment
from tests.simulation.broken_rules import Break, assert_found
from tests.simulation.budget import seeds_within
from tests.simulation.cluster.__main__ import explained
from tests.simulation.cluster.cluster import simulate
from tests.simulation.cluster.shape import GROUPS, Shape

SEEDS = 7
BUDGET_S = 4.0
BROKEN_SEEDS = range(1_000, 1_060)
OFFSETS = replace(GROUPS, groups=(), committers=4, faults=("kill", "power_loss"))
CLASSIC = replace(GROUPS, groups=("classic",), committers=0)
MODERN = replace(GROUPS, groups=("modern",), committers=0)
MIXED = replace(GROUPS, groups=("mixed",), committers=0)


def test_groups_keep_their_promises_within_the_budget() -> None:
    _groups_keep_their_promises(seeds_within(BUDGET_S))


@pytest.mark.full
def test_groups_keep_their_promises() -> None:
    _groups_keep_their_promises(range(SEEDS))


def _groups_keep_their_promises(seeds: Iterable[int]) -> None:
    """Check clients without members, a group of each protocol, and a mixed one, side by side.

    The clients commit offsets. The protocols are the classic one and KIP-848; members of the mixed group return with
    either. Some members are static, and the topic grows.
    """
    for seed in seeds:
        result = simulate(seed, GROUPS)
        assert not result.problems, explained(result, 40)
        assert result.figures["committed"] > 0
        assert result.figures["handovers"] > 0


def answer_before_replication(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator answers when its own log has the records."""

    async def commit(self: ReplicatedLog) -> None:
        """Nothing is waited for."""

    monkeypatch.setattr(ReplicatedLog, "commit", commit)


def end_sessions_whatever_members_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """A heartbeat is answered, and a session ends as if there had been none."""
    real = rebalance.renew_session

    def begin_only(group: ClassicGroup, environment: GroupEnvironment, member_id: str, timeout_ms: int) -> None:
        timers: Any = environment.timers
        if rebalance._session_key(group, member_id) not in timers:
            real(group, environment, member_id, timeout_ms)

    monkeypatch.setattr(rebalance, "renew_session", begin_only)


def give_away_what_another_member_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every partition of the target assignment counts as free (what UNRELEASED_PARTITIONS is for)."""
    monkeypatch.setattr(PartitionOwners, "free", lambda _, topic, partitions: partitions)


def ask_no_classic_member_to_join(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members of the classic protocol in a group of KIP-848 hear of nothing."""
    monkeypatch.setattr(classic_members, "_may_go_on", lambda *_: False)


def forget_what_members_had_before_a_conversion(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member of KIP-848 that comes to a classic group is given what is not free."""
    monkeypatch.setattr(upgrading, "_had", lambda group: {key: {} for key in group.members.by_id})


@pytest.mark.parametrize(
    ("break_it", "shape", "first"),
    [
        pytest.param(answer_before_replication, OFFSETS, 1_007, marks=pytest.mark.full),
        pytest.param(end_sessions_whatever_members_say, CLASSIC, 1_000, marks=pytest.mark.full),
        pytest.param(give_away_what_another_member_holds, MODERN, 1_000, marks=pytest.mark.full),
        pytest.param(ask_no_classic_member_to_join, MIXED, 1_001, marks=pytest.mark.full),
        pytest.param(forget_what_members_had_before_a_conversion, MIXED, 1_009, marks=pytest.mark.full),
    ],
)
def test_a_broken_rule_is_found(break_it: Break, shape: Shape, first: int) -> None:
    assert_found(break_it, shape, BROKEN_SEEDS, first)
