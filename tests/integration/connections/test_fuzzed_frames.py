"""Changed requests over PLAINTEXT, SASL_PLAINTEXT and SSL, before and after authentication, beside an honest client.

`make fuzz` sends a million. The broker lives on, its log stays short, and the client's records are all there.
"""

import pytest

from tests.fuzz.sockets import Report, storm

GROWTH_BYTES_MAX = 48 * 1024 * 1024
COMPLAINTS_MAX = 60
COMPLAINTS_MAX_EACH_S = 1.5
"""One line in ten seconds for each kind on each listener."""


def check(report: Report, frames: int) -> None:
    assert sum(report.sent.values()) >= frames - len(report.sent)
    assert report.honest > frames // 500
    assert report.resident_after - report.resident_before < GROWTH_BYTES_MAX, report.line()
    assert 0 < report.complaints < COMPLAINTS_MAX + report.seconds * COMPLAINTS_MAX_EACH_S, report.line()


def test_a_thousand_changed_frames_leave_a_broker_as_it_was() -> None:
    check(storm(1_000, seed=20_261_129), 1_000)


@pytest.mark.full
@pytest.mark.timeout(1_500)
def test_twenty_thousand_changed_frames_leave_a_broker_as_it_was() -> None:
    check(storm(20_000, seed=20_261_130), 20_000)
