"""Push groups of a simulated cluster under faults: no two consumers read the same, and no progress is lost.

Consumers die, pause, are cut off in one direction or both, are slow, and return under their ids. Coordinators die, move
and pause during rebalances. Groups move between protocols.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from msgspec import structs

from broker_runtime.groups.push import answers, offsets, pings, rebalance, upkeep
from broker_runtime.groups.push.state import group as push_group
from broker_runtime.groups.push.state import ownership
from broker_runtime.groups.push.state.calls import PushEnvironment
from broker_runtime.groups.push.state.group import PushGroup
from broker_runtime.groups.push.state.member import PushMember
from broker_runtime.groups.push.state.states import PushState
from broker_runtime.groups.records import GroupRecord, OffsetCommitValue
from broker_runtime.groups.shards import shard
from broker_runtime.groups.state import GroupsState
from tests.simulation.broken_rules import Break, assert_found
from tests.simulation.budget import seeds_within
from tests.simulation.cluster.__main__ import explained
from tests.simulation.cluster.cluster import simulate
from tests.simulation.cluster.shape import PUSH, Shape

SEEDS = 5
BUDGET_S = 4.0
BROKEN_SEEDS = range(1_000, 1_030)
ONE_GROUP = replace(PUSH, groups=("push",))
SILENT = replace(ONE_GROUP, faults=("coordinator_falls_silent",))
"""Coordinators are gone, and consumers do not know it."""
FULL = pytest.mark.full


def test_push_groups_keep_their_promises_within_the_budget() -> None:
    _push_groups_keep_their_promises(seeds_within(BUDGET_S))


@pytest.mark.full
def test_push_groups_keep_their_promises() -> None:
    _push_groups_keep_their_promises(range(SEEDS))


def _push_groups_keep_their_promises(seeds: Iterable[int]) -> None:
    """Check one group of push consumers, and one whose members use push, the classic protocol or KIP-848 in turn.

    More of it: make simulate SEEDS=300 SHAPE=push.
    """
    for seed in seeds:
        result = simulate(seed, PUSH)
        assert not result.problems, explained(result, 40, shape="push")
        assert result.figures["committed"] > 0
        assert result.figures["handovers"] > 0


def start_without_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is told to stop before others are started."""

    def stop(group: PushGroup, environment: PushEnvironment) -> None:
        group.state = PushState.STOPPING
        group.awaited.clear()
        rebalance._continue_when_stopped(group, environment)

    monkeypatch.setattr(rebalance, "_stop", stop)


def start_when_the_first_has_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """One answer to StopFetcher is enough."""
    real = rebalance.answered

    def answered(group: PushGroup, environment: PushEnvironment, member: PushMember) -> None:
        if group.state is PushState.STOPPING:
            group.awaited.clear()
        real(group, environment, member)

    monkeypatch.setattr(answers, "answered", answered)


def commit_after_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was told with the answers to StopFetcher is not committed before others start."""
    monkeypatch.setattr(answers, "uncommitted", lambda *_: ())
    monkeypatch.setattr(rebalance, "uncommitted", lambda *_: ())


def lose_registrations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator that takes over knows one consumer of each group, and waits for no other."""
    real = upkeep.loaded

    def loaded(state: GroupsState, environment: PushEnvironment) -> None:
        for group in state.groups.values():
            if isinstance(group, PushGroup):
                for consumer_id in sorted(group.members)[1:]:
                    group.remove(consumer_id)
        real(state, environment)

    monkeypatch.setattr(f"{shard.__name__}.push.loaded", loaded)


def give_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator that takes over does not wait for as long as consumers may read that have not noticed."""

    def await_return(group: PushGroup, environment: PushEnvironment, member: PushMember) -> None:
        give_up = partial(pings._ping, environment, group, member)
        environment.timers.schedule((group.group_id, "ping", member.consumer_id), 0.1, give_up)

    monkeypatch.setattr(upkeep, "await_return", await_return)


def leave_a_partition_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last partition of each topic is nobody's."""
    real = ownership.known_topics

    def known(*asked: Any) -> Any:
        return {name: topic._replace(partitions=topic.partitions - 1) for name, topic in real(*asked).items()}

    monkeypatch.setattr(push_group, "known_topics", known)


def commit_an_earlier_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    """One less than what was told."""
    real = offsets.uncommitted

    def earlier(*asked: Any) -> Sequence[GroupRecord]:
        found = [(record.key, record.value) for record in real(*asked)]
        return [
            GroupRecord(key, structs.replace(value, offset=max(value.offset - 1, 0)))
            for key, value in found
            if isinstance(value, OffsetCommitValue)
        ]

    monkeypatch.setattr(answers, "uncommitted", earlier)
    monkeypatch.setattr(rebalance, "uncommitted", lambda *_: ())


@pytest.mark.parametrize(
    ("break_it", "shape", "first", "what"),
    [
        pytest.param(start_without_a_stop, ONE_GROUP, 1_000, "for another", marks=FULL),
        pytest.param(start_when_the_first_has_stopped, ONE_GROUP, 1_000, "", marks=FULL),
        (commit_after_the_start, ONE_GROUP, 1_001, "is committed"),
        pytest.param(lose_registrations, SILENT, 1_000, "for another", marks=FULL),
        pytest.param(give_up_at_once, SILENT, 1_000, "for another", marks=FULL),
        pytest.param(leave_a_partition_out, ONE_GROUP, 1_000, "has not converged", marks=FULL),
        pytest.param(commit_an_earlier_offset, ONE_GROUP, 1_000, "", marks=FULL),
    ],
)
def test_a_broken_rule_of_push_groups_is_found(break_it: Break, shape: Shape, first: int, what: str) -> None:
    assert_found(break_it, shape, BROKEN_SEEDS, first, what)
