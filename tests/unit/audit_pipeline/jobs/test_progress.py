"""A build's estimates of its remaining time."""

import logging

import pytest

from audit_pipeline.jobs.progress import BatchNews, Progress
from tests.support.fakes.manual_clock import ManualClock


def test_a_first_build_estimates_once_it_has_read_some(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = ManualClock()
    progress = Progress(clock.monotonic)
    progress.begin(3_000)
    assert progress.rows_per_s is None
    progress.step("events of one day", 1_000)
    clock.advance(10)
    progress.done(1_000)
    clock.advance(5)
    progress.step("events of two days", 2_000)
    clock.advance(20)
    progress.done(2_000)
    progress.step("results of three days", 0)
    clock.advance(7)
    assert [record.message for record in caplog.records] == [
        "events of one day, 1,000 rows",
        "events of two days, 2,000 rows; about 20 s left",
        "results of three days",
    ]
    assert progress.rows_per_s == pytest.approx(100)
    assert progress.beside_s == pytest.approx(12)


def test_a_small_build_before_does_not_make_the_estimate_of_a_large_one_too_long(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    clock = ManualClock()
    progress = Progress(clock.monotonic, 10_000.0, 30.0)
    clock.advance(4)
    progress.begin(1_000_000)
    progress.step("events of ten days", 1_000_000)
    assert caplog.records[-1].message == "events of ten days, 1,000,000 rows; about 126 s left"


def test_a_build_that_has_nothing_to_read_keeps_what_was_known() -> None:
    clock = ManualClock()
    progress = Progress(clock.monotonic, 10_000.0, 30.0)
    progress.begin(0)
    clock.advance(3)
    assert progress.rows_per_s == 10_000.0


def test_simultaneous_batches_are_reported_together_and_empty_ones_are_not_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    now_us = 0
    news = BatchNews(lambda: now_us)
    news.published(0)
    news.published(1200)
    news.published(3)
    now_us = 4_999_999
    news.published(4)
    now_us = 5_000_000
    news.published(5)
    assert [record.getMessage() for record in caplog.records] == [
        "published 1,200 rows of usage in 1 batches",
        "published 12 rows of usage in 3 batches",
    ]
