"""The table of several rounds: ratios, spreads, and what was wanted."""

from benchmarks.round_table import Wanted, figures_of, table

RATE = Wanted("MB/s", more_is_better=True, ratio=1.5, work="MB")
HEAD = "| row | ours | other | ratio | processor time, us | its ratio | wanted | reached |"


def cells(
    wanted: Wanted, ours: list[tuple[float, float | None]], theirs: list[tuple[float, float | None]]
) -> list[str]:
    lines = table({"a row": figures_of(wanted, ours, theirs)}, "other").splitlines()
    assert lines[0] == HEAD
    return [cell.strip() for cell in lines[2].strip("|").split("|")]


def test_ratios_are_those_of_each_round() -> None:
    found = cells(RATE, [(100, 10.0), (300, 20.0), (90, 30.0)], [(50, 20.0), (100, 20.0), (90, 10.0)])
    assert found == [
        "a row",
        "100 MB/s (90.0 to 300)",
        "90.0 MB/s (50.0 to 100)",
        "2.00 (1.00 to 3.00)",
        "20.0 beside 20.0 a MB",
        "1.00 (0.50 to 3.00)",
        "ratio >= 1.5",
        "yes",
    ]


def test_a_missed_bound_is_marked() -> None:
    assert cells(RATE, [(10, None)], [(10, None)])[3:] == ["1.00 (1.00 to 1.00)", "", "", "ratio >= 1.5", "**no**"]
    memory = Wanted("MB", own=40.0)
    assert cells(memory, [(41, None)], [(400, None)])[-2:] == ["ours <= 40 MB", "**no**"]
    assert cells(memory, [(39, None)], [(400, None)])[-1] == "yes"


def test_there_is_no_ratio_to_zero() -> None:
    assert cells(Wanted("%", more_is_better=True), [(90, None)], [(0, None)])[2:] == ["0.00 %", "", "", "", "", ""]


def test_a_row_without_another_subject_has_only_its_own_bound() -> None:
    lines = table({"check": figures_of(Wanted("us", own=2.0), [(1.5, None), (1.7, None), (1.6, None)])}, None)
    assert lines.splitlines()[2] == "| check | 1.60 us (1.50 to 1.70) | ours <= 2 us | yes |"
