"""The broker's side: what it may use when answers come, are lost or come late, and when it reports."""

import pytest

from connection_limits.cluster.reports import Answer, Grant, Report, ShareState, Verdict
from connection_limits.cluster.shares import Right, Shares

NOW = 1_000_000
LEASE, REPORT = 4_000, 200
RATE = 300_000
NAME = "listener:EXTERNAL"


class Broker:
    """Shares with one rate, and a controller whose answers the test chooses."""

    def __init__(self) -> None:
        self.now_ms = NOW
        self.shares = Shares(REPORT, LEASE, NOW)
        self.shares.registered = 3
        self.shares.note_serving(True, NOW)
        self.shares.set_limit(NAME, RATE, NOW)

    @property
    def right(self) -> Right:
        return self.shares.right(self.shares.limits[NAME], self.now_ms)

    def begin(self) -> Report:
        return self.shares.begin_report(1, 11, self.now_ms)

    def answer(
        self, report: Report, share: int | None = None, *, rate: int = RATE, epoch: int = 7, more_soon: bool = False
    ) -> None:
        grants = () if share is None else (Grant(NAME, rate, share),)
        self.shares.answered(report, Answer(Verdict.GRANTED, epoch, LEASE, 3, more_soon, grants), self.now_ms)

    def granted(self, share: int) -> None:
        self.answer(self.begin(), share)


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_without_an_answer_nothing_may_be_used(broker: Broker) -> None:
    assert broker.right == Right(0, 0, ShareState.WAITING)
    assert broker.shares.answered_ms is None


def test_a_share_lasts_from_the_report_on_then_the_reserve_remains(broker: Broker) -> None:
    report = broker.begin()
    broker.now_ms += 1_000
    broker.answer(report, 200_000)
    assert broker.right == Right(200_000, RATE // 3, ShareState.GRANTED)
    assert broker.shares.answered_ms == NOW
    broker.now_ms = NOW + LEASE - 1
    assert broker.right.share == 200_000
    broker.now_ms += 1
    assert broker.right == Right(RATE // 3, RATE // 3, ShareState.RESERVE)


def test_a_reserve_is_at_most_the_share(broker: Broker) -> None:
    broker.granted(5_000)
    broker.now_ms += LEASE
    assert broker.right == Right(5_000, 5_000, ShareState.RESERVE)


def test_a_long_silence_lowers_the_reserve_to_an_equal_part_and_ends_with_one(broker: Broker) -> None:
    broker.granted(200_000)
    broker.shares.registered = 6
    broker.now_ms += 3 * LEASE
    assert broker.right.share == RATE // 6
    broker.shares.set_limit(NAME, RATE, broker.now_ms)
    broker.now_ms += 3 * LEASE
    assert broker.right == Right(RATE // 6, RATE // 6, ShareState.EQUAL)


def test_a_broker_that_serves_without_any_answer_uses_an_equal_part_after_six_leases(broker: Broker) -> None:
    broker.now_ms += 6 * LEASE - 1
    assert broker.right.share == 0
    broker.now_ms += 1
    assert broker.right == Right(RATE // 3, RATE // 3, ShareState.EQUAL)


def test_a_broker_that_serves_nobody_gives_up_its_shares_and_waits_again(broker: Broker) -> None:
    broker.granted(200_000)
    report = broker.begin()
    broker.shares.note_serving(False, broker.now_ms)
    assert broker.right.share == 0
    broker.answer(report, 250_000)
    assert broker.right.share == 0
    broker.now_ms += 9 * LEASE
    assert broker.right.share == 0
    broker.shares.note_serving(True, broker.now_ms)
    assert broker.right == Right(0, 0, ShareState.WAITING)


def test_a_broker_that_has_not_served_yet_has_no_reserve(broker: Broker) -> None:
    broker.shares.note_serving(False, broker.now_ms)
    broker.granted(200_000)
    assert broker.right == Right(200_000, 0, ShareState.GRANTED)
    before = broker.shares.phase(broker.now_ms)
    broker.shares.note_serving(True, broker.now_ms)
    assert broker.shares.phase(broker.now_ms) != before
    assert broker.right == Right(200_000, RATE // 3, ShareState.GRANTED)


def test_a_share_whose_lease_ends_before_the_broker_serves_is_given_up(broker: Broker) -> None:
    broker.shares.note_serving(False, broker.now_ms)
    broker.granted(200_000)
    broker.now_ms += LEASE
    assert broker.right.share == 0
    # The controller has forgotten this broker, which served no clients.
    broker.shares.note_serving(True, broker.now_ms)
    assert broker.right == Right(0, 0, ShareState.WAITING)
    assert [limit.share for limit in broker.begin().limits] == [0]


def test_a_broker_that_has_not_served_yet_reports_no_share_after_the_lease(broker: Broker) -> None:
    broker.shares.note_serving(False, broker.now_ms)
    broker.granted(200_000)
    broker.now_ms += LEASE
    report = broker.begin()
    assert [limit.share for limit in report.limits] == [0]
    broker.answer(report)
    broker.shares.note_serving(True, broker.now_ms)
    assert broker.right.share == 0


def test_an_answer_after_the_end_of_the_lease_renews_only_the_reserve(broker: Broker) -> None:
    broker.granted(200_000)
    broker.now_ms += LEASE - 100
    report = broker.begin()
    assert report.limits[0].share == 200_000 if report.limits else True
    broker.now_ms += 200
    broker.answer(report)
    assert broker.right.share == RATE // 3
    assert broker.shares.is_urgent


def test_an_answer_after_the_end_of_the_lease_may_raise_a_share(broker: Broker) -> None:
    broker.granted(200_000)
    broker.now_ms += LEASE - 100
    report = broker.begin()
    broker.now_ms += 200
    # The controller compares a larger share with what all others may use.
    broker.answer(report, 250_000)
    assert broker.right.share == 250_000


def test_a_report_after_the_lease_has_ended_gives_up_the_rest(broker: Broker) -> None:
    broker.granted(200_000)
    broker.now_ms += LEASE
    report = broker.begin()
    assert [limit.share for limit in report.limits] == [RATE // 3]
    broker.answer(report)
    assert broker.right.share == RATE // 3


def test_an_answer_of_a_former_term_counts_as_none(broker: Broker) -> None:
    broker.granted(100_000)
    broker.shares.controller_epoch = 8
    broker.answer(broker.begin(), 290_000, epoch=7)
    assert broker.right.share == 100_000
    assert broker.begin().is_full


def test_an_answer_to_a_report_that_was_given_up_changes_nothing(broker: Broker) -> None:
    report = broker.begin()
    broker.shares.failed(report)
    broker.answer(report, 100_000)
    assert broker.right.share == 0


def test_a_smaller_share_is_reported_at_once(broker: Broker) -> None:
    broker.granted(200_000)
    broker.now_ms += 500
    assert not broker.shares.is_urgent
    broker.shares.demand_is(NAME, 100_000)
    broker.answer(broker.begin(), 50_000)
    assert broker.shares.is_urgent
    assert not broker.shares.is_due(broker.now_ms + 19)
    broker.now_ms += 20
    assert broker.shares.is_due(broker.now_ms)
    report = broker.begin()
    assert (report.is_full, [limit.share for limit in report.limits]) == (False, [50_000])


def test_a_lower_rate_lowers_the_share_and_a_higher_one_does_not_raise_it(broker: Broker) -> None:
    broker.granted(200_000)
    broker.shares.set_limit(NAME, RATE // 10, broker.now_ms)
    assert broker.right.share == 20_000
    broker.shares.set_limit(NAME, RATE, broker.now_ms)
    assert broker.right.share == 20_000


def test_a_share_of_a_higher_rate_than_this_brokers_is_scaled(broker: Broker) -> None:
    broker.shares.set_limit(NAME, RATE // 10, broker.now_ms)
    broker.granted(200_000)
    assert broker.right.share == 20_000


def test_reports_are_due_when_something_has_changed(broker: Broker) -> None:
    assert broker.shares.is_due(broker.now_ms)
    broker.granted(100_000)
    assert not broker.shares.is_due(broker.now_ms + LEASE // 4 - 1)
    assert broker.shares.is_due(broker.now_ms + LEASE // 4)
    broker.shares.demand_is(NAME, 50_000)
    assert not broker.shares.is_due(broker.now_ms + REPORT - 1)
    assert broker.shares.is_due(broker.now_ms + REPORT)
    broker.now_ms += REPORT
    report = broker.begin()
    assert not broker.shares.is_due(broker.now_ms + 60_000)
    assert [limit.demand for limit in report.limits] == [50_000]
    broker.answer(report)
    # A tenth more or less is no change.
    broker.shares.demand_is(NAME, 52_000)
    assert not broker.shares.is_due(broker.now_ms + REPORT)
    broker.shares.demand_is(NAME, 0)
    assert broker.shares.is_due(broker.now_ms + REPORT)


def test_a_saturated_broker_asks_again_while_others_give_up(broker: Broker) -> None:
    broker.shares.demand_is(NAME, RATE)
    broker.answer(broker.begin(), 10_000, more_soon=True)
    assert broker.shares.is_due(broker.now_ms + REPORT)
    broker.now_ms += REPORT
    report = broker.begin()
    assert [limit.name for limit in report.limits] == [NAME]
    broker.answer(report, 290_000)
    broker.shares.demand_is(NAME, 280_000)


def test_failures_are_retried_with_growing_pauses_and_full_reports(broker: Broker) -> None:
    broker.granted(100_000)
    pauses = []
    for _ in range(5):
        report = broker.begin()
        broker.shares.failed(report)
        pauses.append(next(ms for ms in range(0, LEASE, 10) if broker.shares.is_due(broker.now_ms + ms)))
        broker.now_ms += pauses[-1]
    assert pauses == [400, 800, 1_000, 1_000, 1_000]
    assert broker.begin().is_full


@pytest.mark.parametrize("verdict", [Verdict.NEEDS_FULL, Verdict.OVERTAKEN])
def test_a_refused_report_is_followed_by_a_full_one(broker: Broker, verdict: Verdict) -> None:
    broker.granted(100_000)
    broker.now_ms += 1_000
    report = broker.begin()
    assert not report.is_full
    broker.shares.answered(report, Answer(verdict, 7), broker.now_ms)
    assert broker.shares.is_due(broker.now_ms + 20)
    assert broker.begin().is_full


def test_a_removed_limit_is_reported_once(broker: Broker) -> None:
    broker.granted(100_000)
    broker.shares.remove_limit(NAME)
    assert not broker.shares.is_empty
    broker.now_ms += REPORT
    report = broker.begin()
    assert [(limit.name, limit.rate) for limit in report.limits] == [(NAME, 0)]
    broker.answer(report)
    assert broker.shares.is_empty
    assert not broker.shares.is_due(broker.now_ms + 60_000)


def test_a_limit_that_was_removed_while_its_report_was_in_flight_is_reported_again(broker: Broker) -> None:
    report = broker.begin()
    broker.shares.remove_limit(NAME)
    broker.answer(report, 100_000)
    broker.now_ms += REPORT
    assert [limit.rate for limit in broker.begin().limits] == [0]


def test_the_first_limit_after_a_time_without_any_has_no_share_yet(broker: Broker) -> None:
    broker.granted(100_000)
    broker.shares.remove_limit(NAME)
    broker.now_ms += 100 * LEASE
    broker.shares.set_limit(NAME, RATE, broker.now_ms)
    assert broker.right == Right(0, 0, ShareState.WAITING)
