"""Numbers in a readable form."""

import pytest

from audit_pipeline.report import words


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0"), (0.05, "0.05"), (0.00012, "0.00012"), (1, "1"), (9.996, "10"), (12.34, "12.3"), (999.96, "1,000")],
)
def test_three_digits_are_enough(number: float, shown: str) -> None:
    assert words.three_digits(number) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (5 * 2**40, "5 TiB"),
        (2**90, "1,073,741,824 EiB"),
    ],
)
def test_sizes_have_binary_units(number: int, shown: str) -> None:
    assert words.size(number) == shown


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0, "0 %"),
        (0.0000001, "less than 0.001 %"),
        (0.123, "12.3 %"),
        (0.9991, "99.91 %"),
        (0.9999999, "more than 99.99 %"),
        (1, "100 %"),
        (1.076, "108 %"),
    ],
)
def test_percent_rounds_neither_to_100_nor_to_0_unless_exact(share: float, shown: str) -> None:
    assert words.percent(share) == shown


@pytest.mark.parametrize(
    ("now", "before", "shown"),
    [(5, 5, "the same"), (0, 0, "the same"), (5, 0, "none before"), (110, 100, "+10.0 %"), (50, 100, "−50.0 %")],
)
def test_a_change_is_a_percentage(now: float, before: float, shown: str) -> None:
    assert words.change(now, before) == shown


def test_a_large_change_is_a_multiple() -> None:
    assert words.change(700, 100) == "7 times"


def test_numbers_in_sentences_are_short() -> None:
    assert [words.about(each) for each in (999_999, 1_000_000, 12_345_678, 5 * 10**9)] == [
        "999,999",
        "1 million",
        "12.3 million",
        "5 billion",
    ]
    assert words.number_of(1, "broker") == "1 broker"
    assert words.number_of(0, "broker") == "0 brokers"


def test_times_are_utc_and_lengths_have_two_units() -> None:
    assert words.moment_utc(1_795_339_812_000_000, seconds=True) == "2026-11-22 09:30:12 UTC"
    assert [words.length(each) for each in (0, 61_000_000, 90_000_000_000, 86_400_000_000)] == [
        "less than 1 s",
        "1 min 1 s",
        "1 d 1 h",
        "1 d",
    ]
    assert [words.latency(each) for each in (None, 999, 1000, 94_000, 2_500_000)] == [
        "not known",
        "999 µs",
        "1 ms",
        "94 ms",
        "2.5 s",
    ]
