"""Counters of push groups: rebalances and their durations, pings, and lost consumers."""

from broker_runtime.groups.push.answers import start_answered
from broker_runtime.groups.push.state.states import PushState
from broker_runtime.groups.tally import Loss
from broker_runtime.node.metrics import push_families
from tests.support.groups.push_groups import SESSION_S, Consumer, Coordinator, answer_all


def test_a_rebalance_counts_when_the_last_consumer_has_started() -> None:
    coordinator = Coordinator()
    coordinator.topic("t", 4)
    first, second = coordinator.consumers("a", "b")
    tally = coordinator.environment.tally
    assert (tally.rebalances, tally.rebalance_s) == (2, 0.0)
    third = Consumer(coordinator, "c")
    third.register()
    answer_all([first])
    coordinator.wait(1.5)
    assert tally.rebalances == 2
    answer_all([first, second, third])
    assert coordinator.group_state() is PushState.STABLE
    assert (tally.rebalances, tally.rebalance_s) == (3, 1.5)
    coordinator.topic("other", 4)
    assert tally.rebalances == 3, "nobody reads that"


def test_pings_failures_and_lost_consumers_are_counted() -> None:
    coordinator = Coordinator()
    coordinator.topic("t", 4)
    silent, leaving, wrong = coordinator.consumers("silent", "leaving", "wrong")
    tally = coordinator.environment.tally
    coordinator.wait(SESSION_S / 3)
    assert (tally.pings, tally.unanswered_pings) == (3, 0)
    answer_all([silent, leaving, wrong])
    leaving.close()
    assert dict(tally.losses) == {Loss.CLOSED: 1}
    wrong.unanswered.clear()
    wrong.say(start_answered, offsets=None)
    coordinator.wait(3 * SESSION_S)
    assert dict(tally.losses) == {Loss.CLOSED: 1, Loss.WRONG: 1, Loss.SILENT: 1}
    assert tally.unanswered_pings == 2, "one retry"


def test_metrics_name_each_cause_also_before_anybody_is_lost() -> None:
    tally = Coordinator().environment.tally
    tally.failed_rebalances = 2
    found = {family.name: family for family in push_families(7, tally)}
    assert len(found["sluicegate_push_consumers_lost_total"].series) == len(Loss)
    assert [each.value for each in found["sluicegate_push_consumers"].series] == [7]
    assert [each.value for each in found["sluicegate_push_rebalances_failed_total"].series] == [2]
