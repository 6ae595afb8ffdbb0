"""Groups whose assignment would block the event loop: it is computed aside, and written in slices (KIP-848)."""

from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.coordination.seam import in_one_go
from broker_runtime.groups.records import ConsumerGroupTargetAssignmentMemberKey
from tests.support.groups.consumer_groups import Coordinator, durable

MEMBERS = 300


def of_many(config: BrokerConfig | None = None) -> Coordinator:
    coordinator = Coordinator(config)
    coordinator.topic("orders", MEMBERS)
    for number in range(MEMBERS):
        coordinator.join(f"m{number}", "orders")
    return coordinator


def beat(coordinator: Coordinator) -> None:
    for member in list(coordinator.group.members.values()):
        coordinator.heartbeat(member.member_id, member.epoch, owned=member.current.assigned_partitions)


def test_the_first_member_has_an_epoch_before_there_is_an_assignment() -> None:
    coordinator = Coordinator()
    coordinator.aside_at_once = False
    topic = coordinator.topic("orders", MEMBERS)
    joined = coordinator.join("a", "orders")
    assert (joined.member_epoch, joined.assignment) == (1, {})
    coordinator.wait(0)
    coordinator.run_aside()
    told = coordinator.heartbeat("a", 1)
    assert (told.member_epoch, told.assignment) == (2, {topic: tuple(range(MEMBERS))})


def test_all_members_are_served_a_heartbeat_after_the_interval() -> None:
    coordinator = of_many()
    coordinator.wait(1)
    for _ in range(3):
        beat(coordinator)
        coordinator.wait(5)
    assert coordinator.group.state_name == "Stable"
    assert all(len(coordinator.assigned(member_id)) == 1 for member_id in coordinator.group.members)
    assert durable(coordinator.replayed()) == durable(coordinator.state)


def test_no_decision_writes_more_than_a_chunk() -> None:
    coordinator = of_many()
    coordinator.aside_at_once = False
    coordinator.wait(1)
    coordinator.decide(coordinator.environment.aside.pop()())
    ((_, slice_of_it),) = coordinator.environment.timers.take_due()
    records, _ = in_one_go(slice_of_it(coordinator.state))
    assert 0 < len(records) <= 64
    assert all(isinstance(record.key, ConsumerGroupTargetAssignmentMemberKey) for record in records)


def test_a_member_that_leaves_during_the_computation_is_omitted_and_a_new_one_waits() -> None:
    coordinator = of_many()
    coordinator.aside_at_once = False
    coordinator.wait(1)
    coordinator.leave("m0")
    coordinator.join("late", "orders")
    coordinator.run_aside()
    assert "m0" not in coordinator.group.target
    assert "late" not in coordinator.group.target
    assert coordinator.group.state_name == "Assigning"
    coordinator.aside_at_once = True
    coordinator.wait(1)
    assert "late" in coordinator.group.target


def test_a_static_member_that_returns_during_the_computation_gets_its_assignment() -> None:
    coordinator = of_many()
    coordinator.join("static", "orders", instance_id="i")
    coordinator.aside_at_once = False
    coordinator.wait(1)
    coordinator.leave("static", -2, instance_id="i")
    coordinator.join("next", "orders", instance_id="i")
    coordinator.run_aside()
    assert "next" in coordinator.group.target
    assert "static" not in coordinator.group.target


def test_a_fail_over_forgets_what_was_computed_and_computes_it_again() -> None:
    coordinator = of_many()
    coordinator.aside_at_once = False
    coordinator.wait(1)
    coordinator.fail_over()
    coordinator.aside_at_once = True
    coordinator.wait(1)
    beat(coordinator)
    beat(coordinator)
    assert coordinator.group.assignment_epoch == coordinator.group.epoch


def test_an_assignment_is_being_written_until_the_log_has_its_last_record() -> None:
    """Otherwise another assignment could be computed from a half-written one."""
    coordinator = of_many()
    coordinator.aside_at_once = False
    coordinator.wait(1)
    coordinator.decide(coordinator.environment.aside.pop()())
    timers = coordinator.environment.timers
    while coordinator.group.assigning:
        ((_, slice_of_it),) = timers.take_due()
        # The log refuses it, and it is tried once more.
        in_one_go(slice_of_it(coordinator.state))
        timers.cancel((coordinator.group.group_id, "adoption"))
        assert coordinator.group.assigning
        coordinator.decide(slice_of_it)
    assert sum(map(len, coordinator.group.target.values())) > 0
    assert len(coordinator.group.target) == len(coordinator.group.members)
    assert durable(coordinator.replayed()) == durable(coordinator.state)


def test_after_a_failover_sessions_start_in_portions_and_silent_members_are_removed() -> None:
    coordinator = of_many()
    coordinator.fail_over()
    group_id, is_set = coordinator.group.group_id, coordinator.environment.timers.is_set
    assert 0 < sum(is_set(group_id, "session", f"m{number}") for number in range(MEMBERS)) < MEMBERS
    coordinator.leave("m7")
    coordinator.wait(0)
    coordinator.wait(44)
    coordinator.heartbeat("m8", coordinator.group.members["m8"].epoch)
    coordinator.wait(2)
    assert set(coordinator.group.members) == {"m8"}


def test_members_of_a_very_large_group_get_a_long_heartbeat_interval() -> None:
    coordinator = of_many(BrokerConfig(sluicegate_group_consumer_rebalance_heartbeat_interval_ms=10))
    assert coordinator.join("late", "orders").heartbeat_interval_ms == MEMBERS // 5
