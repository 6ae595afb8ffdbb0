"""Apache Kafka 4.3.0 and our broker answer the same scripts; what differs is in the table of wanted differences."""

import pytest

from tests.integration.differential.comparing import differences
from tests.integration.differential.conftest import Pair
from tests.integration.differential.script import SEQUENCES
from tests.integration.differential.wanted import PAGE, outdated, page, unexplained


@pytest.mark.parametrize("name", SEQUENCES)
def test_answers_differ_only_as_wanted(pair: Pair, name: str) -> None:
    kafka, ours = pair.play(SEQUENCES[name])
    assert kafka.keys() == ours.keys()
    found = differences(kafka, ours)
    new = unexplained(name, found)
    assert not new, f"{len(new)} differences without a reason:\n" + "\n".join(map(str, new))
    gone = outdated(name, found)
    assert not gone, "wanted differences that do not occur:\n" + "\n".join(map(str, gone))


def test_the_page_of_differences_has_not_drifted() -> None:
    told = "run `python -m tests.integration.differential.wanted` and commit the result"
    assert PAGE.read_text(encoding="utf-8") == page(), told
