"""Nodes of the previous release and of this one in one cluster of virtual time, on the same disks.

Brokers of both releases replicate to each other, and controllers of either release lead brokers of the other. The
checks are those of all simulated clusters. More of it: make simulate SEEDS=100 SHAPE=mixed.
"""

from collections import Counter
from dataclasses import replace

import pytest

from broker_runtime.metadata import codec
from tests.simulation.broken_rules import assert_found
from tests.simulation.cluster.__main__ import explained
from tests.simulation.cluster.cluster import simulate
from tests.simulation.cluster.shape import MIXED, ROLLED, Shape
from tests.support.obtain.previous_release import left_out

pytestmark = [pytest.mark.full, pytest.mark.skipif(left_out() is not None, reason=left_out() or "")]

SEEDS = 8
GAP_MAX_MS = 1_000
"""Longest time from a batch's first attempt to its acknowledgement by all replicas in sync, while nodes are rolled.

The target is half a second. The first batch after a change of leaders may take 0.65 s: the simulated producer asks for
the leader again only after an error.
"""
ON_TOPICS = replace(
    MIXED,
    committers=2,
    faults=(
        "change_release",
        "kill",
        "power_loss",
        "controlled_restart",
        "new_topic",
        "temporary_topic",
        "topic_made_again",
        "grow",
        "reassign",
        "delete_records",
        "elect_preferred",
        "jump",
        "slow",
    ),
)
SHAPES = {
    "a journal in files": MIXED,
    "a journal in Kubernetes": replace(MIXED, controllers=3),
    "combined nodes": replace(MIXED, controllers=3, combined=True),
    "changes of topics": ON_TOPICS,
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_nodes_that_change_their_release_while_others_fail_lose_nothing(shape: Shape) -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        result = simulate(seed, shape)
        assert not result.problems, explained(result, 40)
        seen.update(result.figures)
    assert min(seen[name] for name in ("acknowledged", "committed", "handovers")) > 0, seen
    assert seen["changed"] > 2 * SEEDS, seen


@pytest.mark.parametrize("protocol", ["classic", "modern", "push"])
def test_twenty_minutes_of_rolls_up_and_down_keep_producers_waiting_no_longer_than_a_second(
    protocol: str,
) -> None:
    """An hour of virtual time, together with the other protocols. Most of the time both releases serve."""
    result = simulate(0, replace(ROLLED, groups=(protocol,), partitions=1))
    assert not result.problems, explained(result, 40)
    assert result.virtual_s > ROLLED.faults_s
    assert result.figures["changed"] > 100
    assert result.figures["committed"] > 0
    assert result.figures["slowest_ms"] <= GAP_MAX_MS


def write_a_later_format_of_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller of this release writes records that the previous release does not read."""
    monkeypatch.setattr(codec, "_VERSION", 2)


def test_finds_records_that_the_previous_release_cannot_read() -> None:
    assert_found(write_a_later_format_of_metadata, MIXED, range(4), 0)
