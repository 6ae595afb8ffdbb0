"""Apache Kafka 4.3.0 and this project's broker answer the same scripts.

Every difference is in the table of wanted differences.
"""

import pytest

from tests.integration.differential.comparing import Difference, differences
from tests.integration.differential.conftest import Pair
from tests.integration.differential.play import Sequence
from tests.integration.differential.script import (
    PLAYED_AGAIN,
    SEQUENCES,
    WITH_ACCESS_CONTROL,
    WITH_COORDINATORS,
    WITH_LIMITS_IN_THE_FILE,
)
from tests.integration.differential.wanted import PAGE, outdated, page, unexplained

pytestmark = pytest.mark.full

TRIES = 3


@pytest.mark.parametrize("name", SEQUENCES)
def test_answers_differ_only_as_wanted(pair: Pair, name: str) -> None:
    compare(pair, name, SEQUENCES[name])


@pytest.mark.parametrize("name", WITH_LIMITS_IN_THE_FILE)
def test_answers_differ_only_as_wanted_with_limits_in_the_file(limited_pair: Pair, name: str) -> None:
    compare(limited_pair, name, WITH_LIMITS_IN_THE_FILE[name])


@pytest.mark.parametrize("name", WITH_COORDINATORS)
def test_answers_differ_only_as_wanted_with_coordinators(coordinated_pair: Pair, name: str) -> None:
    compare(coordinated_pair, name, WITH_COORDINATORS[name])


@pytest.mark.parametrize("name", WITH_ACCESS_CONTROL)
def test_answers_differ_only_as_wanted_with_access_control(guarded_pair: Pair, name: str) -> None:
    compare(guarded_pair, name, WITH_ACCESS_CONTROL[name])


def compare(pair: Pair, name: str, sequence: Sequence) -> None:
    found = play(pair, sequence)
    new = unexplained(name, found)
    for _ in range(TRIES - 1 if name in PLAYED_AGAIN else 0):
        # Kafka's threads and a loaded machine change counts and times occasionally: a difference must occur every time.
        if not new:
            break
        found = play(pair, sequence)
        seen = {difference.path for difference in new}
        new = [difference for difference in unexplained(name, found) if difference.path in seen]
    assert not new, f"{len(new)} differences without a reason:\n" + "\n".join(map(str, new))
    gone = outdated(name, found)
    assert not gone, "wanted differences that do not occur:\n" + "\n".join(map(str, gone))


def play(pair: Pair, sequence: Sequence) -> list[Difference]:
    kafka, ours = pair.play(sequence)
    assert kafka.keys() == ours.keys()
    return differences(kafka, ours)


def test_the_page_of_differences_has_not_drifted() -> None:
    told = "run `python -m tests.integration.differential.wanted` and commit the result"
    assert PAGE.read_text(encoding="utf-8") == page(), told
