"""The table of protocol versions is correct, and its released part does not change."""

import hashlib

import pytest

from broker_runtime.apis.table import COUNTED_APIS
from broker_runtime.wire.protocol_versions import (
    HISTORY,
    PROTOCOL_VERSION_MAX,
    PROTOCOL_VERSION_MIN,
    Life,
    Step,
    lives,
)

DIGESTS = {
    1: "0426eba3bc6b13cc",
    2: "71f4287dd0ef41d7",
    3: "6f2d8f25a6169d35",
    4: "a51774c26b38dbb5",
    5: "9cc536bd7367990b",
    6: "82c62cfef29188a7",
    7: "39c6df0c217cf64b",
}
"""Digest of each step. A step that is here never changes.

A difference in the served versions is a new step, with its own number and digest.
"""


def digest(step: Step) -> str:
    parts = [sorted(versions.items()) for versions in (step.added, step.deprecated, step.removed)]
    return hashlib.sha256(repr((step.number, parts)).encode()).hexdigest()[:16]


def test_the_table_has_exactly_the_served_versions() -> None:
    served = {(api.key, version) for api in COUNTED_APIS for version in range(api.versions[0], api.versions[1] + 1)}
    living = {one for one, life in lives().items() if life.removed is None}
    assert served - living == set(), "add a protocol version that adds them"
    assert living - served == set(), "add a protocol version that removes them"


def test_a_change_of_what_is_served_has_a_number_of_its_own() -> None:
    assert {step.number: digest(step) for step in HISTORY} == DIGESTS


def test_the_range_that_brokers_tell() -> None:
    assert PROTOCOL_VERSION_MIN == 1
    assert len(HISTORY) == PROTOCOL_VERSION_MAX


def test_the_life_of_a_version() -> None:
    history = [
        Step(1, "", {0: (0, 2), 1: (0, 0)}),
        Step(2, "", {0: (3, 3)}, deprecated={0: (0, 1)}),
        Step(3, "", {}, removed={0: (0, 0), 1: (0, 0)}),
    ]
    assert lives(history) == {
        (0, 0): Life(1, 2, 3),
        (0, 1): Life(1, 2),
        (0, 2): Life(1),
        (0, 3): Life(2),
        (1, 0): Life(1, None, 3),
    }


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (Step(3, "", {}), "3 follows 1"),
        (Step(1, "", {}), "1 follows 1"),
        (Step(2, "", {0: (1, 3)}), "adds .0, 1. again"),
        (Step(2, "", {}, removed={0: (2, 3)}), "removes .0, 3."),
        (Step(2, "", {}, deprecated={7: (0, 0)}), "deprecates .7, 0."),
    ],
)
def test_a_step_that_does_not_fit_is_refused(second: Step, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        lives([Step(1, "", {0: (0, 2)}), second])
