"""A store that fails: a refusal is reported at once, silence after a while; log lines are rare."""

import logging

import pytest

from broker_runtime.controller.journal.store import StoreError, StoreRefusedError
from broker_runtime.controller.journal.trouble import SAID_EVERY, Trouble

SILENT = StoreError("GET /leases: no answer")


def test_silence_is_reported_after_a_while_and_forgotten_when_it_ends() -> None:
    trouble = Trouble("the lease cannot be had", 10.0)
    assert trouble.reason(0.0) is None
    trouble.failed(SILENT, 100.0)
    trouble.failed(SILENT, 105.0)
    assert trouble.reason(109.9) is None
    assert trouble.reason(112.0) == "the lease cannot be had for 12 s: GET /leases: no answer"
    trouble.ended()
    assert trouble.reason(200.0) is None
    trouble.failed(SILENT, 300.0)
    assert trouble.reason(301.0) is None, "counted from the first of this run"


def test_a_refusal_is_told_at_once() -> None:
    trouble = Trouble("the lease cannot be had", 10.0)
    trouble.failed(StoreRefusedError("GET /leases: 403 forbidden"), 100.0)
    assert trouble.reason(100.0) == "the lease cannot be had for 0 s: GET /leases: 403 forbidden"


def test_the_log_has_the_first_and_then_every_nth(caplog: pytest.LogCaptureFixture) -> None:
    trouble = Trouble("the lease cannot be had", 10.0)
    with caplog.at_level(logging.INFO):
        for second in range(3 * SAID_EVERY):
            trouble.failed(SILENT, float(second))
        trouble.ended()
        trouble.failed(SILENT, 100.0)
        trouble.ended()
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING"] * 3 + ["INFO", "WARNING"]
