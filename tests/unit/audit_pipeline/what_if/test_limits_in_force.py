"""The limits that a log records: which report a replay begins with, and what is left out."""

from audit_pipeline.what_if.limits_in_force import RecordedLimit, limits_in_force
from connection_limits.recorded.rows import LimitEvent, LimitPlace, LimitRow, RateKind
from connection_limits.recorded.settings_rows import row_of

RATE = LimitPlace("max.connection.creation.rate")


def known(seq: int, at_us: int, value: int, further: int) -> RecordedLimit:
    place = RATE if not further else LimitPlace("max.connections")
    return RecordedLimit(seq, at_us, row_of(LimitEvent.KNOWN, place, value), further)


def changed(seq: int, at_us: int, value: int, further: int = 0) -> RecordedLimit:
    return RecordedLimit(seq, at_us, row_of(LimitEvent.SET, RATE, value), further)


def test_a_log_begins_with_its_first_report_and_later_ones_repeat_it() -> None:
    rows = [known(1, 10, 5, 1), changed(2, 12, 7), known(3, 10, 6, 0), known(8, 90, 5, 1), known(9, 90, 7, 0)]
    found = limits_in_force(rows)
    assert found is not None
    assert found.known_from_us == 10
    assert found.settings_for([]).max_connection_creation_rate == 6
    assert [(change.at_us, change.seq) for change in found.changes] == [(12, 2)]


def test_changes_before_the_first_whole_report_are_part_of_it() -> None:
    rows = [changed(1, 5, 3), known(2, 10, 5, 1), known(3, 10, 6, 0), changed(4, 20, 9)]
    found = limits_in_force(rows)
    assert found is not None
    assert [change.seq for change in found.changes] == [4]


def test_a_report_that_lacks_rows_is_no_report() -> None:
    assert limits_in_force([]) is None
    assert limits_in_force([known(1, 10, 5, 1)]) is None
    found = limits_in_force([known(1, 10, 5, 1), changed(2, 11, 4), known(5, 90, 5, 1), known(6, 90, 8, 0)])
    assert found is not None
    assert (found.known_from_us, found.changes) == (90, [])


def test_rows_that_came_into_force_together_are_one_change() -> None:
    found = limits_in_force([known(1, 10, 5, 0), changed(2, 20, 3, 1), changed(3, 20, 4), changed(4, 30, 1)])
    assert found is not None
    assert [len(change.rows) for change in found.changes] == [2, 1]


def test_moves_of_the_brokers_themselves_are_counted() -> None:
    moved = LimitRow(LimitEvent.SET, RateKind.ADAPTIVE, RATE.key, value=30)
    found = limits_in_force([known(1, 10, 5, 0), RecordedLimit(2, 20, moved, 0), changed(3, 30, 9)])
    assert found is not None
    assert (found.moves, len(found.changes), found.has_groups) == (1, 2, False)
