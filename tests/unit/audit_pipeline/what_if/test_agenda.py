"""The events of a replay's virtual time come in the order of their times, and then of their numbers in the log."""

from audit_pipeline.what_if.agenda import Agenda


def test_events_of_one_microsecond_keep_the_order_of_the_log() -> None:
    agenda = Agenda()
    for at_us, seq, about in ((5, 9, "c"), (5, 2, "b"), (4, 7, "a"), (5, 9, "d")):
        agenda.plan(at_us, seq, 0, about)
    assert [about for *_, about in agenda.before((6,))] == ["a", "b", "c", "d"]


def test_events_at_a_place_and_after_it_stay() -> None:
    agenda = Agenda()
    for seq in (1, 2, 3):
        agenda.plan(5, seq, 0, seq)
    assert [about for *_, about in agenda.before((5, 2))] == [1]
    assert [about for *_, about in agenda.before((5,))] == []
    assert [about for *_, about in agenda.before((6,))] == [2, 3]


def test_an_event_that_is_planned_meanwhile_comes_in_its_turn() -> None:
    agenda = Agenda()
    agenda.plan(1, 1, 0, "first")
    agenda.plan(9, 2, 0, "last")
    seen = []
    for _, _, _, _, about in agenda.before((10,)):
        seen.append(about)
        if about == "first":
            agenda.plan(4, 3, 0, "meanwhile")
    assert seen == ["first", "meanwhile", "last"]
