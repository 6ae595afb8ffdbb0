"""The releases whose work an operator continues."""

from importlib.metadata import version

import pytest

from sluicegate_operator.api.release import own_release, why_too_new


def test_the_own_release_is_that_of_the_distribution() -> None:
    assert own_release() == version("sluicegate")


@pytest.mark.parametrize(
    "recorded",
    ["", "unknown", "0.1.0", "0.2.0", "0.2.9", "0.3.0", "0.3.7-rc.1", "0.3"],
    ids=lambda text: text or "none",
)
def test_the_work_of_earlier_releases_and_of_the_next_one_is_continued(recorded: str) -> None:
    assert why_too_new(recorded, "0.2.0") == ""


@pytest.mark.parametrize("recorded", ["0.4.0", "0.10.0", "0.4", "1.0.0", "0.4.0-rc.1"])
def test_the_work_of_a_later_release_is_left_alone(recorded: str) -> None:
    assert why_too_new(recorded, "0.2.5") == (
        f"an operator of release {recorded} has written its status, and this operator of release 0.2.5 takes over from"
        f" the next minor release at most: run release {recorded} again, or go back one minor release at a time"
    )


def test_an_own_release_that_is_no_number_leaves_nothing_alone() -> None:
    assert why_too_new("9.0.0", "local") == ""
