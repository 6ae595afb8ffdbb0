"""Clusters whose nodes change between the previous release and this one, on the same disks and on virtual time.

Brokers of both releases replicate to each other, and controllers of either release lead brokers of the other. The
checks are those of all simulated clusters: nothing acknowledged is lost or repeated, and groups keep their promises.
`make soak` rolls for an hour of virtual time.
"""

import os
from dataclasses import replace

import pytest

from tests.simulation.cluster.__main__ import explained
from tests.simulation.cluster.cluster import simulate
from tests.simulation.cluster.shape import MIXED, ROLLED
from tests.support.obtain.previous_release import left_out

pytestmark = [pytest.mark.full, pytest.mark.skipif(left_out() is not None, reason=left_out() or "")]

SEEDS = 3
ROLLED_S = float(os.environ.get("SLUICEGATE_ROLLED_S", "300"))
"""Virtual time in which all nodes change from release to release."""
SLOWEST_MS_MAX = 2_000
"""Longest time from the first attempt of a batch to its acknowledgement. The simulated client asks for leaders late."""


def test_nodes_that_change_their_release_under_faults_lose_nothing() -> None:
    for seed in range(SEEDS):
        result = simulate(seed, MIXED)
        assert not result.problems, explained(result, 40, shape="mixed")
        assert result.figures["changed"] > 0


@pytest.mark.parametrize("group", MIXED.groups)
def test_a_cluster_that_is_rolled_again_and_again_acknowledges_all_the_time(group: str) -> None:
    result = simulate(0, replace(ROLLED, groups=(group,), faults_s=ROLLED_S))
    assert not result.problems, explained(result, 40, shape="rolled")
    assert result.figures["changed"] > ROLLED_S / 10
    assert result.figures["slowest_ms"] < SLOWEST_MS_MAX
