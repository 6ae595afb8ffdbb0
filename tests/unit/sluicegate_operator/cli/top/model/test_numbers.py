"""Short texts of numbers, and sparklines."""

import pytest

from sluicegate_operator.cli.top.model.numbers import (
    ASCII_BLOCKS,
    BLOCKS,
    ids,
    milliseconds,
    percent,
    rate_of,
    seconds,
    short,
    sparkline,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0"),
        (7, "7"),
        (7.0, "7"),
        (0.44, "0.4"),
        (99.94, "99.9"),
        (99.96, "100"),
        (999, "999"),
        (999.6, "1.0k"),
        (1234, "1.2k"),
        (-1234, "-1.2k"),
        (123_456, "123k"),
        (34_500_000, "34.5M"),
        (5e15, "5000T"),
    ],
)
def test_a_number_has_about_three_digits(value: float | None, text: str) -> None:
    assert short(value) == text


def test_shares_and_durations_have_units() -> None:
    assert [percent(share) for share in (None, 0, 0.001, 0.005, 0.954, 1.2)] == ["-", "0%", "<1%", "0%", "95%", "120%"]
    assert [seconds(value) for value in (None, 0.44, 9.96, 119, 120, 7200, 172_800)] == [
        "-", "0.4s", "10s", "119s", "2m", "2h", "2d",
    ]  # fmt: skip
    assert [milliseconds(value) for value in (None, 2.04, 53.2)] == ["-", "2.0", "53"]
    assert rate_of(4.94, 50) == "4.9/50"
    assert rate_of(None, None) == "-/-"
    assert ids((1, 2)) == "1,2"
    assert ids(()) == "none"


def test_a_sparkline_is_relative_to_its_peak_and_ends_at_the_right() -> None:
    assert sparkline((0, 1, 50, 100), 6) == "   ▁▄█"
    assert sparkline((9, 9, 1, 2), 2) == "▄█"
    assert sparkline((), 3) == "   "
    assert sparkline((0, 0), 3) == "   "
    assert sparkline((0, 5, 10), 3, ASCII_BLOCKS) == " =@"
    assert len(BLOCKS) == len(ASCII_BLOCKS)
