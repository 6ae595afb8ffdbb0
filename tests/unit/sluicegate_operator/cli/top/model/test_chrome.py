"""The lines around the table, and the plain text for pipes."""

from sluicegate_operator.cli.top.model.chrome import FOOTER, cut, heading, status, tabs, totals_line
from sluicegate_operator.cli.top.model.columns import Mark, SortOrder
from sluicegate_operator.cli.top.model.lines import TopView
from sluicegate_operator.cli.top.model.plain_text import plain_text
from sluicegate_operator.cli.top.model.recorder import Recorder
from sluicegate_operator.cli.top.model.screens import BROKERS, LIMITS, SCREENS
from tests.support.fakes.synthetic_console import SyntheticSource


def view(**more: object) -> TopView:
    source, recorder = SyntheticSource(**more), Recorder()  # type: ignore[arg-type]
    recorder.view(source.look_at(5))
    return recorder.view(source.look_at(6))


def text(pieces: list[tuple[str, Mark]]) -> str:
    return "".join(piece for piece, _ in pieces)


def test_the_heading_shows_late_answers_and_a_pause() -> None:
    shown = view()
    assert text(heading("up", shown, 1.0, paused=False)) == "sluicegate top  shop  up  12:00:06 UTC"
    assert text(heading("up", shown, 7.0, paused=False)).endswith("  waiting for answers for 7.0s")
    assert text(heading("up", shown, 7.0, paused=True)).endswith("  PAUSED, p continues")


def test_totals_fit_into_the_width_and_problems_are_marked() -> None:
    totals = view().totals
    assert len(text(totals_line(totals, 80))) <= 80
    assert text(totals_line(totals, 30)) == text(totals_line(totals, 80))[: len(text(totals_line(totals, 30)))]
    assert ("brokers 2/3", Mark.BAD) in totals_line(totals, 80)
    assert ("brokers 3/3", Mark.PLAIN) in totals_line(view(away=frozenset()).totals, 80)


def test_the_shown_table_and_tables_with_problems_have_signs() -> None:
    line = text(tabs(SCREENS, "limits", view()))
    assert line == " 1 Brokers[2 Limits]3 Addresses 4 Clients 5 Storms! 6 Groups 7 Partitions! "
    assert text(tabs(SCREENS, "partitions", view(away=frozenset()))).endswith(" 6 Groups[7 Partitions]")


def test_the_status_has_place_order_and_filter() -> None:
    assert status(LIMITS, SortOrder("held_s"), "", (2, 14, 14)) == "row 3 of 14  sorted by held/s, largest first"
    assert status(LIMITS, SortOrder("target", reverse=True), "x", (0, 0, 14)) == (
        "no rows  sorted by target, Z to A  filter: x  (14 without it)"
    )
    assert "smallest first" in status(BROKERS, SortOrder("id"), "", (0, 1, 1))


def test_lines_fill_the_width() -> None:
    assert cut([("ab", Mark.BAD)], 4) == [("ab", Mark.BAD), ("  ", Mark.PLAIN)]
    assert cut([("ab", Mark.BAD), ("cdef", Mark.PLAIN)], 4) == [("ab", Mark.BAD), ("c~", Mark.PLAIN)]
    assert len(FOOTER) < 80


def test_plain_text_has_each_table_with_its_rows() -> None:
    lines = list(plain_text(view(), SCREENS.values(), 80))
    assert lines[0] == "shop  12:00:06"
    assert lines[1].startswith("brokers 2/3  new/s ")
    assert [line for line in lines if line.endswith(")")] == [
        "Brokers (3)", "Limits (14)", "Addresses (12)", "Clients (2)", "Storms (5)", "Groups (3)", "Partitions (7)",
    ]  # fmt: skip
    assert "     2 Fenced    no answer within 3 s" in lines
    assert max(map(len, lines[2:])) <= 80


def test_plain_text_is_filtered_and_says_if_a_table_is_empty() -> None:
    lines = list(plain_text(view(away=frozenset()), [SCREENS["partitions"]], 80))
    assert lines[3:] == ["Partitions (0)", "  all partitions that brokers report are in sync"]
    lines = list(plain_text(view()._replace(notes=("a note",)), [LIMITS], 80, "external"))
    assert lines[2] == "! a note"
    assert [line.split()[:2] for line in lines[6:]] == [["listener", "EXTERNAL"]]
