"""Seeds for tests that simulate as many clusters as a budget of processor time allows."""

import time
from collections.abc import Iterator


def seeds_within(budget_s: float, first: int = 0) -> Iterator[int]:
    """Consecutive seeds from `first` on, until the process has used `budget_s` seconds; always at least one."""
    end_s = time.process_time() + budget_s
    seed = first
    while seed == first or time.process_time() < end_s:
        yield seed
        seed += 1
