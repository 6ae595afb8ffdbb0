"""The time for which work blocks the event loop: counted by length, the longest kept, very long ones logged."""

import logging

import pytest

from broker_runtime.slicing.slice_lengths import BOUNDS_S, SliceLengths


def test_time_slices_are_counted_by_length() -> None:
    slices = SliceLengths("sockets")
    for length_s in (0.0, 0.0005, 0.001, 0.0011, 0.005, 0.0051, 2.0):
        slices.note(length_s, now_s=10.0)
    counts = dict(zip([*BOUNDS_S, None], slices.cumulated(), strict=True))
    assert (counts[0.001], counts[0.002], counts[0.005], counts[0.01], counts[1.0], counts[None]) == (3, 4, 5, 6, 6, 7)
    assert slices.total_s == pytest.approx(2.0127)


def test_the_longest_is_forgotten_after_two_minutes_at_the_latest() -> None:
    slices = SliceLengths("sockets")
    assert slices.longest_s(5.0) == 0
    slices.note(0.3, now_s=10.0)
    slices.note(0.2, now_s=11.0)
    assert slices.longest_s(69.0) == 0.3
    slices.note(0.1, now_s=75.0)
    assert slices.longest_s(76.0) == 0.3
    assert slices.longest_s(135.0) == 0.1
    assert slices.longest_s(1000.0) == 0


def test_a_very_long_time_slice_is_logged_with_its_cause_and_repeats_are_rate_limited(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class NeverText:
        def __str__(self) -> str:
            raise AssertionError("nobody asked")

    slices = SliceLengths("metadata")
    slices.note(0.09, 10.0, NeverText())
    slices.note(0.25, 10.0, "topic a")
    slices.note(0.3, 15.0, NeverText())
    slices.note(0.3, 19.9, NeverText())
    slices.note(0.4, 20.0, "topic b")
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, "the event loop was blocked for 250 ms by metadata, at the end by topic a"),
        (
            logging.WARNING,
            "the event loop was blocked for 400 ms by metadata, at the end by topic b; 2 more since the last such line",
        ),
    ]
