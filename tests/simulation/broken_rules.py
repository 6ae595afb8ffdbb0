"""Breaks a rule of the product, and expects that a simulation finds it."""

from collections.abc import Callable, Sequence

import pytest

from tests.simulation.cluster.cluster import simulate
from tests.simulation.cluster.shape import Shape

Break = Callable[[pytest.MonkeyPatch], None]
"""Breaks a rule until the patch is undone. Its docstring names what is broken."""


def assert_found(break_it: Break, shape: Shape, seeds: Sequence[int], first: int, what: str = "") -> None:
    """Fail unless the problems of a seed name `what`, and that seed has none while no rule is broken.

    All seeds are tried, from `first` on. `first` is the seed that found the broken rule at the time of writing; after
    any change it may be another.
    """
    begin = seeds.index(first)
    for seed in (*seeds[begin:], *seeds[:begin]):
        with pytest.MonkeyPatch.context() as broken:
            break_it(broken)
            found = simulate(seed, shape).problems
        if found:
            assert any(what in problem for problem in found), found
            assert not simulate(seed, shape).problems, f"seed {seed} fails although nothing is broken"
            return
    pytest.fail(f"no seed of {seeds} finds out: {break_it.__doc__}")
