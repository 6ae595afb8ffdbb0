"""When a start failure needs a user, and when it is forgotten."""

from sluicegate_operator.planning.rolls.start_failures import (
    FORGOTTEN_AFTER_S,
    LASTING_S,
    FailingNode,
    FailureHistory,
    NodesNotStarting,
    StartFailure,
)

LOOP = FailingNode("shop-brokers-1", "u1", StartFailure("CrashLoopBackOff", "num.partitions: abc is no number"))
WAITS = FailingNode("shop-brokers-0", "u0", StartFailure("Unschedulable", "0/3 nodes are available"))
BOTH = frozenset({"u0", "u1"})


def test_a_person_is_called_when_it_has_lasted() -> None:
    history = FailureHistory()
    assert history.note(1, [LOOP], BOTH, 0.0) == NodesNotStarting(LOOP, needs_a_person=False)
    assert history.note(1, [LOOP], BOTH, LASTING_S) == NodesNotStarting(LOOP, needs_a_person=True)


def test_a_container_that_runs_between_two_crashes_is_still_failing() -> None:
    history = FailureHistory()
    history.note(1, [LOOP], BOTH, 0.0)
    assert history.note(1, [], BOTH, LASTING_S) == NodesNotStarting(LOOP, needs_a_person=True)
    assert history.note(1, [], BOTH, LASTING_S + FORGOTTEN_AFTER_S) is None, "it has not crashed for long"


def test_a_node_that_is_well_or_gone_is_forgotten() -> None:
    history = FailureHistory()
    history.note(1, [LOOP], BOTH, 0.0)
    assert history.note(1, [], frozenset(), 1.0) is None
    assert history.note(1, [LOOP], BOTH, LASTING_S) == NodesNotStarting(LOOP, needs_a_person=False), "it begins anew"


def test_another_generation_of_the_spec_is_another_attempt() -> None:
    history = FailureHistory()
    history.note(1, [LOOP], BOTH, 0.0)
    assert history.note(2, [LOOP], BOTH, LASTING_S) == NodesNotStarting(LOOP, needs_a_person=False)
    history.note(3, [], BOTH, LASTING_S)
    assert history.note(3, [], BOTH, LASTING_S) is None


def test_another_cluster_of_the_name_is_another_attempt() -> None:
    history = FailureHistory()
    history.note(("a", 1), [LOOP], BOTH, 0.0)
    assert history.note(("b", 1), [], BOTH, LASTING_S) is None
    assert history.note(("b", 1), [LOOP], BOTH, LASTING_S) == NodesNotStarting(LOOP, needs_a_person=False)


def test_failures_that_need_a_user_are_reported_before_scheduling_delays() -> None:
    history = FailureHistory()
    assert history.note(1, [WAITS, LOOP], BOTH, 0.0) == NodesNotStarting(WAITS, needs_a_person=False)
    assert history.note(1, [WAITS, LOOP], BOTH, LASTING_S) == NodesNotStarting(LOOP, needs_a_person=True)
    assert history.note(1, [WAITS], frozenset({"u0"}), 9e9) == NodesNotStarting(WAITS, needs_a_person=False)


def test_the_same_one_of_two_alternately_crashing_nodes_is_reported_each_time() -> None:
    history = FailureHistory()
    other = FailingNode("shop-brokers-2", "u2", StartFailure("CrashLoopBackOff", "no space left"))
    unwell = frozenset({"u1", "u2"})
    told = [history.note(1, failing, unwell, LASTING_S) for failing in ([LOOP, other], [other], [LOOP], [other])]
    assert told == [NodesNotStarting(LOOP, needs_a_person=False)] * 4


def test_a_failure_already_in_the_status_counts_as_lasting_in_a_new_term() -> None:
    for stalled_for, lasts in (("CrashLoopBackOff", True), ("ErrImagePull", False), ("", False)):
        history = FailureHistory()
        found = history.note(1, [LOOP], BOTH, 0.0, stalled_for)
        assert found is not None
        assert found.needs_a_person is lasts
    # A failure that begins later in the term is judged by this term alone.
    history = FailureHistory()
    history.note(1, [], BOTH, 0.0, "CrashLoopBackOff")
    found = history.note(1, [LOOP], BOTH, 1.0, "CrashLoopBackOff")
    assert found is not None
    assert not found.needs_a_person
