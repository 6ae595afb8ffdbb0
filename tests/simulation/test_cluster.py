"""Complete clusters under seeded faults in virtual time (tests/simulation/cluster).

`make test` simulates as many seeds as a budget of processor time allows, `make test-all` all of SEEDS; `make simulate
SEEDS=n` simulates more.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.simulation.budget import seeds_within
from tests.simulation.cluster.__main__ import explained, main
from tests.simulation.cluster.cluster import simulate
from tests.simulation.cluster.shape import DEPOSED, PIPELINED, ROTTEN, SECURED

SEEDS = 200
DEPOSED_SEEDS = 8
PIPELINED_SEEDS = 8
ROTTEN_SEEDS = 8
SECURED_SEEDS = 8
BLOCK = 10
BUDGET_S = 8.0
SMALL_BUDGET_S = 3.0
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("first", [0, SEEDS // 2])
def test_nothing_acknowledged_is_lost_within_the_budget(first: int) -> None:
    _nothing_acknowledged_is_lost(seeds_within(BUDGET_S, first))


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_nothing_acknowledged_is_lost(first: int) -> None:
    _nothing_acknowledged_is_lost(range(first, first + BLOCK))


def _nothing_acknowledged_is_lost(seeds: Iterable[int]) -> None:
    for seed in seeds:
        result = simulate(seed)
        assert not result.problems, explained(result, 40)
        assert result.figures["acknowledged"] > 0


def test_a_wrong_report_that_the_active_controller_is_gone_loses_nothing_within_the_budget() -> None:
    _a_deposed_controller_loses_nothing(seeds_within(SMALL_BUDGET_S))


@pytest.mark.full
def test_a_wrong_report_that_the_active_controller_is_gone_loses_nothing() -> None:
    _a_deposed_controller_loses_nothing(range(DEPOSED_SEEDS))


def _a_deposed_controller_loses_nothing(seeds: Iterable[int]) -> None:
    for seed in seeds:
        result = simulate(seed, DEPOSED)
        assert not result.problems, explained(result, 40)
        assert result.figures["terms ended"] > 1


def test_batches_in_flight_stay_in_order_within_the_budget() -> None:
    _batches_in_flight_stay_in_order(seeds_within(SMALL_BUDGET_S))


@pytest.mark.full
def test_batches_in_flight_stay_in_order() -> None:
    _batches_in_flight_stay_in_order(range(PIPELINED_SEEDS))


def _batches_in_flight_stay_in_order(seeds: Iterable[int]) -> None:
    """Check that no batch is repeated.

    All brokers may be killed at once, and batches arrive while replicas recover.
    """
    for seed in seeds:
        result = simulate(seed, PIPELINED)
        assert not result.problems, explained(result, 40)
        assert result.figures["acknowledged"] > 0


def test_damaged_segments_are_mended_and_are_the_same_bytes_then_within_the_budget() -> None:
    _damaged_segments_are_mended(seeds_within(SMALL_BUDGET_S))


@pytest.mark.full
def test_damaged_segments_are_mended_and_are_the_same_bytes_then() -> None:
    _damaged_segments_are_mended(range(ROTTEN_SEEDS))


def _damaged_segments_are_mended(seeds: Iterable[int]) -> None:
    for seed in seeds:
        result = simulate(seed, ROTTEN)
        assert not result.problems, explained(result, 40)
        assert result.figures["acknowledged"] > 0


def test_no_request_is_handled_without_its_session_within_the_budget() -> None:
    _no_request_is_handled_without_its_session(seeds_within(SMALL_BUDGET_S))


@pytest.mark.full
def test_no_request_is_handled_without_its_session() -> None:
    _no_request_is_handled_without_its_session(range(SECURED_SEEDS))


def _no_request_is_handled_without_its_session(seeds: Iterable[int]) -> None:
    """Check that clients are who they have proved to be, while sessions end and passwords change; nothing is lost."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        result = simulate(seed, SECURED)
        assert not result.problems, explained(result, 40)
        seen.update(result.figures)
    assert min(seen[name] for name in ("acknowledged", "sessions", "renewed", "refused")) > 0, seen


@pytest.mark.full
def test_a_seed_is_the_same_run_in_every_process() -> None:
    """Nothing that differs between processes, such as the order of sets of texts, may decide."""
    command = [sys.executable, "-m", "tests.simulation.cluster", "--seeds", "6", "--checksums"]
    outputs = []
    for hash_seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT}:{ROOT / 'operator'}"}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        outputs.append([line for line in done.stdout.splitlines() if line.startswith("seed ")])
    assert len(outputs[0]) == 6
    assert outputs[0] == outputs[1]


def test_faults_that_are_not_known_are_refused_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--faults", "kill,power"])
    said = capsys.readouterr().err
    assert "there are no faults called power; known: kill, " in said
    assert "power_loss, " in said
