"""The rows of the console, from one look after another."""

from dataclasses import replace
from typing import Any

import pytest

from sluicegate_operator.cli.asking.quota_rows import QuotaRow
from sluicegate_operator.cli.fleets.fleet_view import ShownCluster
from sluicegate_operator.cli.top.model.limit_lines import QUIET_S, ClusterLimits, limit_line, line_of_one
from sluicegate_operator.cli.top.model.look import BrokerFigures, KafkaAnswers, Look, OutOfSync
from sluicegate_operator.cli.top.model.recorder import Recorder
from sluicegate_operator.cli.top.model.screens import ADDRESSES, LIMITS
from sluicegate_operator.quotas.observing.shares import ReportedShare
from tests.support.fakes.synthetic_console import CLUSTER, SyntheticSource, group

SHOP = ShownCluster("shop", (), (), "", {}, (), ())


def no_limits() -> ClusterLimits:
    return ClusterLimits([], [], {}, {}, {})


def look(at_s: float, *rows: QuotaRow, **more: Any) -> Look:
    return Look(at_s, "12:00:00", [replace(SHOP, quotas=rows)], **more)


def listener(broker: int, held: int | None, **more: Any) -> QuotaRow:
    return replace(QuotaRow(broker, "listener EXTERNAL", 50, 200, 40.0, 7, 0.25, held), **more)


def test_a_limit_is_one_row_for_all_brokers() -> None:
    recorder = Recorder()
    recorder.view(look(1.0, listener(0, 100), listener(1, 10)))
    [line] = recorder.view(look(3.0, listener(0, 140), listener(1, 30, accept_rate=50.0, blocked_share=0.5))).limits
    assert (line.target, line.max_rate, line.max_connections) == ("listener EXTERNAL", 50, 200)
    assert (line.new_s, line.open, line.use, line.blocked) == (90.0, 14, 1.0, 0.5)
    assert (line.held, line.held_s) == (170, 30.0)
    assert [row.broker_id for row in line.rows] == [0, 1]


def test_a_rate_of_the_cluster_is_compared_with_the_share() -> None:
    share = ReportedShare(400, 100, 300, 0.5, "granted")
    [line] = Recorder().view(look(1.0, listener(0, 0, max_rate=400, share=share))).limits
    assert (line.use, line.of_cluster) == (0.4, True)


def test_figures_that_no_broker_reports_are_unknown() -> None:
    view = Recorder().view(look(1.0, QuotaRow(0, "ip 10.0.0.1", 5)))
    [line] = view.limits
    assert (line.new_s, line.use, line.open, line.blocked, line.held, line.held_s) == (None,) * 6
    assert view.totals.new_s is view.totals.held_s is view.totals.open is None


def test_an_address_without_a_limit_of_its_own_is_an_address_and_no_limit() -> None:
    refused = QuotaRow(0, "ip 10.0.0.9", None, None, 3.0, 1, None, 12)
    view = Recorder().view(look(1.0, refused, QuotaRow(0, "ip 10.0.0.1", 5)))
    assert [line.target for line in LIMITS.rows(view)] == ["ip 10.0.0.1"]
    assert [(line.address, line.held) for line in ADDRESSES.rows(view)] == [("10.0.0.9", 12), ("10.0.0.1", None)]


def test_a_storm_is_shown_until_it_has_been_quiet_for_a_while() -> None:
    recorder = Recorder()
    calm = listener(0, 100, blocked_share=0.0)
    assert recorder.view(look(1.0, calm)).storms == ()
    [storm] = recorder.view(look(2.0, replace(calm, held=160))).storms
    assert (storm.held_s, storm.tried_s, storm.for_s, storm.quiet_s, storm.trend) == (60.0, 100.0, 0.0, 0.0, (60.0,))
    [storm] = recorder.view(look(12.0, replace(calm, held=160))).storms
    assert (storm.held_s, storm.for_s, storm.quiet_s, storm.trend) == (0.0, 10.0, 10.0, (60.0, 0.0))
    [storm] = recorder.view(look(3.0 + QUIET_S, replace(calm, held=160))).storms
    assert recorder.view(look(4.0 + QUIET_S, replace(calm, held=160))).storms == ()


def test_a_blocked_listener_is_a_storm() -> None:
    [storm] = Recorder().view(look(1.0, listener(0, 5, blocked_share=0.9))).storms
    assert (storm.blocked, storm.held_s) == (0.9, 0.0)


def test_a_broker_that_does_not_answer_is_a_row_that_says_so() -> None:
    source = SyntheticSource()
    recorder = Recorder()
    recorder.view(source.look_at(1))
    view = recorder.view(source.look_at(2))
    away = view.brokers[2]
    assert (away.id, away.state, away.problem, away.new_s, away.open) == (
        2,
        "Fenced",
        "no answer within 3 s",
        None,
        None,
    )
    assert [line.problem for line in view.brokers[:2]] == ["", ""]
    assert (view.totals.brokers, view.totals.answering) == (3, 2)
    assert view.brokers[0].loop_ms is not None
    assert view.brokers[0].cpu is not None
    assert len(view.brokers[0].trend) == 2


def test_a_broker_that_vanishes_is_no_row_any_more() -> None:
    recorder = Recorder()
    recorder.view(SyntheticSource(brokers=3).look_at(1))
    assert [line.id for line in recorder.view(SyntheticSource(brokers=2).look_at(2)).brokers] == [0, 1]


def test_a_registered_broker_that_does_not_run_here_is_a_row() -> None:
    source = SyntheticSource(brokers=1, away=frozenset())
    [cluster] = source.look_at(1).clusters
    view = Recorder().view(Look(1.0, "", [replace(cluster, nodes=(), quotas=())]))
    assert view.brokers[0].problem == "it does not run here"


def test_the_growth_of_a_lag_is_that_between_two_answers() -> None:
    """A look may have the same answer as the one before."""
    recorder = Recorder()
    first = [KafkaAnswers("shop", 1.0, groups=(group("billing", "Stable", 2, 600),))]
    recorder.view(look(1.0, kafka=first))
    [line] = recorder.view(look(2.0, kafka=first)).groups
    assert (line.lag, line.lag_s, line.trend) == (600, None, (600.0,))
    second = [KafkaAnswers("shop", 6.0, groups=(group("billing", "Stable", 2, 500),))]
    [line] = recorder.view(look(6.0, kafka=second)).groups
    assert (line.lag, line.lag_s, line.trend, line.members, line.topics) == (500, -20.0, (600.0, 500.0), 2, "orders")
    [line] = recorder.view(look(7.0, kafka=second)).groups
    assert line.lag_s == -20.0


def test_groups_come_from_metrics_where_no_coordinator_was_asked() -> None:
    figures = {
        ("shop", 0): BrokerFigures(lags={"billing": {"orders": 7}}),
        ("shop", 1): BrokerFigures(lags={"billing": {"payments": 5}, "old": {}}),
        ("other", 0): BrokerFigures(lags={"not shown": {"orders": 1}}),
    }
    view = Recorder().view(look(1.0, figures=figures, kafka=[KafkaAnswers("other", 1.0)]))
    assert [(line.id, line.lag, line.state) for line in view.groups] == [("billing", 12, "-"), ("old", 0, "-")]
    assert view.groups[0].topics == "orders,payments"
    assert view.totals.lag == 12


def test_partitions_have_the_time_since_the_console_has_seen_them() -> None:
    recorder = Recorder()
    slow = OutOfSync("shop", "orders", 0, 1, (0, 1, 2), (0, 1))
    gone = OutOfSync("shop", "orders", 1, None, (2,), ())
    recorder.view(look(1.0, kafka=[KafkaAnswers("shop", 1.0, (slow,))]))
    first, second = recorder.view(look(6.0, kafka=[KafkaAnswers("shop", 6.0, (slow, gone))])).partitions
    assert (first.state, first.missing, first.for_s) == ("out of sync", (2,), 5.0)
    assert (second.state, second.missing, second.for_s) == ("no leader", (2,), 0.0)
    recorder.view(look(7.0))
    [again] = recorder.view(look(9.0, kafka=[KafkaAnswers("shop", 9.0, (slow,))])).partitions
    assert again.for_s == 0.0


def test_a_throttled_client_is_one_row_for_all_brokers() -> None:
    source, recorder = SyntheticSource(), Recorder()
    recorder.view(source.look_at(1))
    line = next(one for one in recorder.view(source.look_at(2)).clients if one.user == "alice")
    assert (line.cluster, line.client_id, line.produced_s, line.brokers) == (CLUSTER, "report-loader", 2_400_000.0, 1)
    assert line.throttled is not None
    assert round(line.throttled, 3) == 0.4


def test_missing_answers_are_notes() -> None:
    unseen = Look(1.0, "", [replace(SHOP, unseen="controller 1000 does not answer")], notes=("a note",))
    view = Recorder().view(replace(unseen, kafka=[KafkaAnswers("shop", 1.0, left_out=3)]))
    assert view.notes == (
        "a note",
        "no view of the controller of shop: controller 1000 does not answer",
        "3 more groups of shop are not shown; `sluicegate groups list` has all",
    )


ROWS = [
    QuotaRow(0, "ip 10.0.0.1", 5),
    QuotaRow(0, "ip 10.0.0.1", 5, 20, 2.5, 3, None, 7),
    QuotaRow(0, "listener EXTERNAL", 50, None, 40.0, 7, 0.25, 100),
    QuotaRow(0, "listener EXTERNAL", 400, None, 50.0, 7, 0.0, 0, "100 to 800", ReportedShare(400, 100, 300, 0.5, "")),
    QuotaRow(0, "broker", None, None, 3.0, 1, None, None),
]


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("earlier", [None, 4, 300])
def test_the_line_of_one_broker_is_computed_like_that_of_several(row: QuotaRow, earlier: int | None) -> None:
    before = None if earlier is None else limit_line("shop", [replace(row, held=earlier)], None, 0.0, no_limits())
    one, several = no_limits(), no_limits()
    line = line_of_one("shop", [row], before, 2.0, one)
    assert line == limit_line("shop", [row], before, 2.0, several)
    assert one == several


def test_a_row_that_did_not_change_stays_beside_that_of_another_broker() -> None:
    recorder = Recorder()
    kept, other, gone = (QuotaRow(broker, "ip 10.0.0.1", 5, None, 1.0, 2, None, 0) for broker in (0, 1, 2))
    recorder.view(look(1.0, kept, QuotaRow(0, "ip 10.0.0.2", 5)))
    # At the same look another address vanishes, so that there are as many rows as before.
    [line] = recorder.view(look(2.0, kept, other)).limits
    assert ([row.broker_id for row in line.rows], line.new_s) == ([1, 0], 2.0)
    [line] = recorder.view(look(3.0, gone)).limits
    assert [row.broker_id for row in line.rows] == [2]
