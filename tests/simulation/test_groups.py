"""Groups of a simulated cluster under faults: no partition has two owners, no commit is lost, and all converge."""

from dataclasses import replace

import pytest

from broker_runtime.coordination.replicated_log import ReplicatedLog
from tests.simulation.cluster.__main__ import explained
from tests.simulation.cluster.cluster import simulate
from tests.simulation.cluster.shape import GROUPS, Shape

SEEDS = 8
BROKEN_SEEDS = range(1_010, 1_050)
OFFSETS = replace(GROUPS, groups=(), committers=4)
CLASSIC = replace(GROUPS, groups=("classic",))


@pytest.mark.parametrize("shape", [OFFSETS, CLASSIC], ids=["offsets", "classic"])
def test_groups_keep_their_promises(shape: Shape) -> None:
    for seed in range(SEEDS):
        result = simulate(seed, shape)
        assert not result.problems, explained(result, 40)
        assert result.figures["committed"] > 0


def answer_before_replication(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator answers when its own log has the records."""

    async def commit(self: ReplicatedLog) -> None:
        """Nothing is waited for."""

    monkeypatch.setattr(ReplicatedLog, "commit", commit)


def test_a_coordinator_that_answers_before_replication_is_found() -> None:
    """1016 at the time of writing."""
    shape = replace(OFFSETS, faults=("kill", "power_loss"))
    for seed in BROKEN_SEEDS:
        with pytest.MonkeyPatch.context() as broken:
            answer_before_replication(broken)
            found = simulate(seed, shape).problems
        if found:
            assert not simulate(seed, shape).problems, f"seed {seed} fails although nothing is broken"
            return
    pytest.fail("no seed finds it out")
