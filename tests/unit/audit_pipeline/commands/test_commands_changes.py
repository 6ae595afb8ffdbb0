"""`changes` prints who changed what, from published results."""

import json
from pathlib import Path
from threading import Event

import pytest

from audit_pipeline.__main__ import main
from tests.support.audit.published_results import publish_rows, story


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("results")
    publish_rows(root, {"changes": story(["alice"])["changes"]})
    return root


def printed(capsys: pytest.CaptureFixture[str], results: Path, *arguments: str) -> list[dict[str, str | None]]:
    assert main(["changes", "--results", str(results), "-o", "json", *arguments], Event()) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_newest_change_comes_first_and_our_own_are_left_out(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = printed(capsys, results)
    assert [row["after"] for row in rows] == [None, None, "1", "soon", "86400000", "alice"]
    assert [row["resource"] for row in rows[:2]] == ["topic orders", "40 more of (topic)"]
    assert [row["outcome"] for row in rows] == [
        "unknown: cancelled",
        "succeeded",
        "succeeded (dry run)",
        "INVALID_CONFIG",
        "succeeded",
        "succeeded",
    ]
    assert (rows[4]["client"], rows[4]["address"], rows[4]["before"]) == ("admin-cli", "10.4.0.5", "604800000")
    assert len(printed(capsys, results, "--own")) == 13


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (["--client", "alice"], 1),
        (["--topic", "ord*"], 4),
        (["--topic", "stock"], 0),
        (["--failed"], 2),
        (["--to", "2026-11-22T14:30"], 1),
        (["--from", "2026-11-22T14:30"], 5),
        (["--cluster", "shop-*"], 6),
        (["--limit", "2"], 2),
    ],
)
def test_filters_choose_changes(
    arguments: list[str], count: int, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(printed(capsys, results, *arguments)) == count


def test_changes_beyond_the_limit_are_announced(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["changes", "--results", str(results), "--limit", "2"], Event()) == 0
    found = capsys.readouterr()
    assert len(found.out.splitlines()) == 3
    assert found.err == "older changes are not shown: there are more than 2 (--limit)\n"


def test_a_limit_of_nothing_is_refused(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["changes", "--results", str(results), "--limit", "0"], Event())
    assert "0 is not a whole number above 0" in capsys.readouterr().err
