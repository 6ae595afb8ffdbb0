"""The controller's ledger: what it grants, to whom, and what it waits for."""

from collections.abc import Mapping, Sequence

import pytest

from connection_limits.cluster.ledger import Ledger
from connection_limits.cluster.members import Members
from connection_limits.cluster.reports import Answer, LimitReport, Report, Verdict
from tests.support.coordination.calls import calls_of
from tests.support.limits.shared_rate_world import finished

NOW = 1_000_000
LEASE, SESSION = 4_000, 9_000
RATE = 300_000
LIMITS_MAX = 30
NAME = "listener:EXTERNAL"
BROKERS = {1: 11, 2: 12, 3: 13}
FLOOR_OF_NEWCOMER = RATE // 160


class Controller:
    """A ledger, and the reports of brokers that behave."""

    def __init__(self, registered: Mapping[int, int] | None = None, pause_ms: int = 0) -> None:
        self.unfenced = dict(BROKERS if registered is None else registered)
        self.ledger = Ledger(7, Members(LEASE, SESSION, self.unfenced, NOW), LIMITS_MAX, pause_ms)
        self.sequences = dict.fromkeys(self.unfenced, 0)
        self.now_ms = NOW

    def ask(self, report: Report) -> Answer:
        self.ledger.members_are(self.unfenced, 3, self.now_ms)
        return finished(self.ledger.report(report, self.now_ms))

    def report(
        self,
        broker_id: int,
        share: int = 0,
        demand: int = 0,
        *,
        rate: int = RATE,
        full: bool = True,
        acked: bool = True,
    ) -> int:
        """Report one limit, and return the share after the answer."""
        self.sequences[broker_id] = sequence = self.sequences.get(broker_id, 0) + 1
        limits = (LimitReport(NAME, rate, share, demand),)
        epoch = self.unfenced.get(broker_id, BROKERS.get(broker_id, 0))
        answer = self.ask(Report(broker_id, epoch, sequence, sequence - 1 if acked else -1, full, limits))
        assert answer.verdict is Verdict.GRANTED
        self.more_soon = answer.more_soon
        self.brokers = answer.brokers
        return next((grant.share for grant in answer.grants if grant.name == NAME), share)

    def settle(self, demands: Sequence[int] = (0, 0, 0)) -> list[int]:
        """Let all brokers report until no share changes."""
        shares = [0] * len(demands)
        for _ in range(4):
            shares = [self.report(n, shares[n - 1], demand) for n, demand in enumerate(demands, 1)]
        return shares


def test_the_first_broker_gets_nothing_until_all_have_reported() -> None:
    controller = Controller()
    assert controller.report(1, demand=RATE) == 0
    assert controller.more_soon
    assert controller.report(2) == 0
    assert controller.report(3) > 0
    assert controller.report(1, demand=RATE) > RATE / 2


def test_a_quiet_rate_is_divided_equally() -> None:
    shares = Controller().settle()
    assert max(shares) - min(shares) <= 1
    assert sum(shares) == RATE - FLOOR_OF_NEWCOMER


def test_demand_moves_the_rate_and_leaves_floors() -> None:
    controller = Controller()
    shares = controller.settle((RATE, 0, 0))
    assert shares[0] > 0.95 * RATE
    assert min(shares) == FLOOR_OF_NEWCOMER


def test_a_share_grows_only_by_what_others_have_given_up() -> None:
    controller = Controller()
    first, second, third = controller.settle((RATE, 0, 0))
    # The second broker needs the rate now: it gets what is free, and the first one has not given up anything yet.
    grown = controller.report(2, second, RATE)
    assert first + grown + third <= RATE
    assert controller.more_soon
    given = controller.report(1, first, 0)
    assert given < first / 2
    # The controller counts the old share until the first broker reports that it uses less.
    again = controller.report(2, grown, RATE)
    assert first + again + third <= RATE
    assert controller.report(1, given, 0) == given
    assert controller.report(2, again, RATE) > 0.95 * RATE - given


def test_a_lost_answer_counts_until_the_next_report() -> None:
    controller = Controller()
    shares = controller.settle()
    granted = controller.report(1, shares[0], RATE)
    lost = controller.report(2, 0, RATE)
    assert granted > shares[0]
    # The first broker never got its answer, and reports its old share: the difference is free again.
    assert controller.report(1, shares[0], 0, acked=False) <= shares[0]
    assert controller.report(2, 0, RATE) > lost


def test_a_silent_broker_is_counted_with_its_share_then_with_its_reserve() -> None:
    controller = Controller()
    shares = controller.settle((RATE, 0, 0))
    controller.now_ms += LEASE
    shares[1:] = [controller.report(2, shares[1], RATE), controller.report(3, shares[2], 0)]
    assert sum(shares) <= RATE
    controller.now_ms += LEASE // 8
    for _ in range(3):
        shares[1:] = [controller.report(2, shares[1], RATE), controller.report(3, shares[2], 0)]
    # Of the first broker an equal part remains: it may use its reserve.
    assert sum(shares[1:]) == pytest.approx(2 / 3 * RATE, rel=0.05)


def test_the_share_of_a_fenced_broker_is_free_after_its_lease_and_a_moment() -> None:
    controller = Controller()
    shares = controller.settle((RATE, 0, 0))
    del controller.unfenced[1]
    controller.now_ms += LEASE * 9 // 8
    shares[1] = controller.report(2, shares[1], RATE)
    assert shares[1] < 0.7 * RATE
    controller.now_ms += SESSION // 8
    for _ in range(3):
        shares[1:] = [controller.report(2, shares[1], RATE), controller.report(3, shares[2], 0)]
    assert shares[1] > 0.95 * RATE


def test_a_broker_that_has_never_reported_is_counted_with_an_equal_part_in_the_end() -> None:
    controller = Controller()
    assert controller.report(1, demand=RATE) == 0
    assert controller.report(2) == 0
    controller.now_ms += 3 * LEASE * 9 // 8
    shares = [0, 0]
    for _ in range(3):
        shares = [controller.report(1, shares[0], RATE), controller.report(2, shares[1], 0)]
    assert 0.6 * RATE < sum(shares) <= RATE - RATE // 3


def test_a_broker_that_joins_gets_its_floor_at_once() -> None:
    controller = Controller()
    controller.settle((RATE, RATE, RATE))
    controller.unfenced[4] = 14
    assert controller.report(4, 0, RATE) == FLOOR_OF_NEWCOMER
    assert controller.brokers == 4


def test_the_lowest_reported_rate_is_divided() -> None:
    controller = Controller()
    shares = controller.settle()
    lower = RATE // 10
    shares[0] = controller.report(1, shares[0] // 10, 0, rate=lower)
    # Others still hold shares of the higher rate, so nobody's share grows.
    assert shares[0] <= RATE // 30
    for _ in range(3):
        shares = [controller.report(n, min(shares[n - 1], lower), RATE, rate=lower) for n in BROKERS]
    assert sum(shares) <= lower
    assert sum(shares) > 0.9 * lower


def test_a_removed_limit_is_forgotten() -> None:
    controller = Controller()
    controller.settle()
    for broker_id in BROKERS:
        controller.report(broker_id, rate=0, full=False)
    assert not controller.ledger.limits


def test_a_full_report_removes_what_it_does_not_list() -> None:
    controller = Controller()
    controller.settle()
    for broker_id, epoch in BROKERS.items():
        controller.ask(Report(broker_id, epoch, 50, -1, True, ()))
    assert not controller.ledger.limits


def test_a_report_that_is_overtaken_changes_nothing() -> None:
    controller = Controller()
    shares = controller.settle((RATE, 0, 0))
    old = Report(1, 11, 1, -1, True, (LimitReport(NAME, RATE, 0, 0),))
    assert controller.ask(old).verdict is Verdict.OVERTAKEN
    assert controller.ask(Report(1, 10, 99, -1, True, ())).verdict is Verdict.OVERTAKEN
    grown = controller.report(2, shares[1], RATE)
    assert shares[0] + grown + shares[2] <= RATE


@pytest.mark.parametrize("sequence", [7, 9])
def test_a_report_after_a_gap_must_be_full(sequence: int) -> None:
    controller = Controller()
    controller.ask(Report(1, 11, 5, -1, True, ()))
    assert controller.ask(Report(1, 11, sequence, 5, False, ())).verdict is Verdict.NEEDS_FULL
    assert controller.ask(Report(1, 11, sequence, 5, True, ())).verdict is Verdict.GRANTED
    assert controller.ask(Report(2, 12, 2, 1, False, ())).verdict is Verdict.NEEDS_FULL


def test_a_new_process_of_a_broker_holds_nothing_of_the_former_one() -> None:
    controller = Controller()
    shares = controller.settle((RATE, 0, 0))
    controller.unfenced[1], controller.sequences[1] = 99, 0
    assert controller.report(1, 0, 0) > 0
    assert controller.report(2, shares[1], RATE) > 0.5 * RATE


def test_a_later_report_of_the_same_broker_ends_the_work_on_an_earlier_one() -> None:
    controller = Controller()
    controller.settle()
    limits = tuple(LimitReport(f"group:{n}", RATE, 0, RATE) for n in range(20))
    controller.ledger.members_are(controller.unfenced, 3, NOW)
    early = controller.ledger.report(Report(1, 11, 60, -1, True, limits), NOW)
    next(early)
    late = finished(controller.ledger.report(Report(1, 11, 61, -1, True, limits[:1]), NOW))
    assert late.verdict is Verdict.GRANTED
    assert finished(early).verdict is Verdict.OVERTAKEN


def test_a_report_of_a_new_process_ends_the_work_on_one_of_the_former_process() -> None:
    controller = Controller()
    controller.settle()
    limits = tuple(LimitReport(f"group:{n}", RATE, 0, RATE) for n in range(20))
    controller.ledger.members_are(controller.unfenced, 3, NOW)
    early = controller.ledger.report(Report(1, 11, 60, -1, True, limits), NOW)
    next(early)
    controller.unfenced[1] = 99
    late = controller.ask(Report(1, 99, 1, -1, True, limits))
    assert late.verdict is Verdict.GRANTED
    assert finished(early).verdict is Verdict.OVERTAKEN
    counted = controller.ledger.limits["group:5"].holders[1].share
    assert counted == next(grant.share for grant in late.grants if grant.name == "group:5")


def test_a_broker_gets_no_share_of_more_limits_than_it_may_have() -> None:
    controller = Controller({1: 11})
    for sequence in range(1, 5):
        limits = tuple(LimitReport(f"group:{sequence}-{n}", RATE, 0, RATE) for n in range(LIMITS_MAX - 10))
        answer = controller.ask(Report(1, 11, sequence, sequence - 1, sequence == 1, limits))
        assert answer.verdict is Verdict.GRANTED
        assert len(answer.grants) == (20, 10, 0, 0)[sequence - 1]
    assert len(controller.ledger.limits) == LIMITS_MAX


def test_a_rate_is_divided_again_after_a_pause() -> None:
    controller = Controller(pause_ms=100)
    shares = controller.settle()
    assert controller.report(1, shares[0], RATE) == shares[0]
    assert controller.more_soon
    controller.now_ms += 99
    assert controller.report(2, shares[1], 0) == shares[1]
    controller.now_ms += 1
    # The first broker did not have to report its demand again.
    fallen = controller.report(2, shares[1], 0)
    assert fallen == FLOOR_OF_NEWCOMER
    assert not controller.more_soon
    controller.sequences[1] += 1
    answer = controller.ask(Report(1, 11, controller.sequences[1], controller.sequences[1] - 1, False, ()))
    assert answer.more_soon


def test_the_counted_shares_are_those_of_all_holders() -> None:
    controller = Controller()
    for step in range(60):
        controller.report(1 + step % 3, 1_000 * step, 7_000 * (step % 5), rate=0 if step % 7 == 3 else RATE)
        for limit in controller.ledger.limits.values():
            assert limit.shares_total == sum(held.share for held in limit.holders.values())


def test_a_broker_that_is_silent_for_long_counts_with_an_equal_part_in_the_shares_of_quiet_brokers() -> None:
    controller = Controller()
    shares = controller.settle((0, RATE, 0))
    for _ in range(10):
        controller.now_ms += 1_000
        for broker_id in (2, 3):
            controller.sequences[broker_id] = sequence = controller.sequences[broker_id] + 1
            answer = controller.ask(Report(broker_id, BROKERS[broker_id], sequence, sequence - 1, False, ()))
            shares[broker_id - 1] = next((grant.share for grant in answer.grants), shares[broker_id - 1])
    assert shares[1] + shares[2] <= RATE - RATE // 3


def test_a_broker_that_gets_no_answers_counts_with_an_equal_part() -> None:
    controller = Controller()
    shares = controller.settle((0, RATE, 0))
    for sequence in range(50, 54):
        controller.ask(Report(1, 11, sequence, 49, True, (LimitReport(NAME, RATE, shares[0], 0),)))
    second = controller.report(2, shares[1], RATE)
    assert second + shares[2] <= RATE - RATE // 3


def test_an_answer_has_only_changed_shares() -> None:
    controller = Controller()
    shares = controller.settle()
    controller.sequences[1] += 1
    report = Report(1, 11, controller.sequences[1], controller.sequences[1] - 1, False, ())
    answer = controller.ask(report)
    assert (answer.verdict, answer.grants, answer.more_soon) == (Verdict.GRANTED, (), False)
    assert (answer.lease_ms, answer.brokers, answer.controller_epoch) == (LEASE, 3, 7)
    assert controller.report(1, shares[0], 0) == shares[0]


def _many(controller: Controller, count: int = 2_000) -> tuple[LimitReport, ...]:
    """Let each broker hold a share of many rates. Returns the rates."""
    limits = tuple(LimitReport(f"group:{n}", RATE, 100, 0) for n in range(count))
    controller.ledger = Ledger(7, Members(LEASE, SESSION, controller.unfenced, NOW), count, 0)
    for broker_id, epoch in BROKERS.items():
        controller.ask(Report(broker_id, epoch, 1, -1, True, limits))
    return limits


def _are_consistent(controller: Controller) -> bool:
    limits, standings = controller.ledger.limits, controller.ledger.members.standings
    return all(
        limit.shares_total == sum(held.share for held in limit.holders.values())
        and all(standings[one].holdings[name] is held for one, held in limit.holders.items())
        for name, limit in limits.items()
    )


@pytest.mark.parametrize("is_given_up", [False, True])
def test_very_many_rates_of_a_broker_that_has_gone_are_removed_in_short_steps(is_given_up: bool) -> None:
    controller = Controller()
    limits = _many(controller)
    controller.unfenced[1] = 99
    controller.ledger.members_are(controller.unfenced, 3, NOW)
    report = controller.ledger.report(Report(1, 99, 1, -1, True, limits[:1]), NOW)
    for _ in range(5):
        assert calls_of(lambda: next(report)) < 200
    if is_given_up:
        report.close()
        answer = controller.ask(Report(2, 12, 2, 1, False, ()))
        assert answer.verdict is Verdict.GRANTED
        answer = controller.ask(Report(1, 99, 2, -1, True, limits[:1]))
    else:
        answer = finished(report)
    assert answer.verdict is Verdict.GRANTED
    assert _are_consistent(controller)
    assert sum(1 in limit.holders for limit in controller.ledger.limits.values()) == 1


def test_very_many_rates_that_a_full_report_does_not_list_are_removed_in_short_steps() -> None:
    controller = Controller()
    limits = _many(controller)
    controller.ledger.members_are(controller.unfenced, 3, NOW)
    report = controller.ledger.report(Report(1, 11, 2, 1, True, limits[:100]), NOW)
    for _ in range(20):
        assert calls_of(lambda: next(report)) < 200
    late = controller.ask(Report(1, 11, 3, 1, True, limits[:10]))
    assert (late.verdict, finished(report).verdict) == (Verdict.GRANTED, Verdict.OVERTAKEN)
    assert _are_consistent(controller)
    assert sum(1 in limit.holders for limit in controller.ledger.limits.values()) == 10
