"""Compares the decisions of a replay with those of the log, and names the generated logs that are replayed."""

from collections.abc import Mapping

import pytest

from audit_pipeline.what_if import agreement
from audit_pipeline.what_if.recording import Recording

_LOGS, _FULL = 1_000, 200
PER_TEST = 50
"""Number of logs that one test replays: those of the seeds from its first seed on."""
FIRST_SEEDS = [
    *range(0, _FULL, PER_TEST),
    *(pytest.param(first, marks=pytest.mark.full) for first in range(_FULL, _LOGS, PER_TEST)),
]
"""The first seed of each test. `make test` replays 200 logs, and `make full` the other 800."""


def differences(recording: Recording) -> list[Mapping[str, object]]:
    """Return the attempts about which the replay has decided otherwise, or at another time."""
    return [difference.row for difference in agreement.differences(recording.attempts)]
