"""The message of `build` for an invalid request, before it starts Spark."""

import json
from datetime import date
from pathlib import Path
from threading import Event

import pytest

from audit_pipeline.__main__ import main
from audit_pipeline.commands.commands_build import described, nothing_in
from audit_pipeline.errors import BadUseError
from audit_pipeline.reading.published import Manifest
from audit_pipeline.sources.landed import LandedSegments
from tests.support.audit.published_results import minutes_of_a_demo, publish_rows

BAD_USE = 2


def build(*arguments: str) -> int:
    return main(["build", *arguments], Event())


@pytest.mark.parametrize(
    ("option", "text", "said"),
    [
        ("--prices", "{", "the file of prices is not JSON"),
        (
            "--prices",
            '{"currency": "EUR", "egres_per_gib": 1}',
            "egres_per_gib is not known; the keys are currency, egress",
        ),
        (
            "--prices",
            '{"currency": "EUR", "egress_per_gib": -1}',
            "egress_per_gib must be a number that is not negative",
        ),
        ("--objectives", '{"objectives": [{"name": "a", "api": "Produce", "latency_ms": 5, "target": 99}]}', "0.999"),
        ("--objectives", "[]", "the file of objectives must be an object"),
        (
            "--mirrors",
            '{"mirrors": [{"name": "a", "source_cluster": "c", "mirror_cluster": "c"}]}',
            "a topic cannot be its own mirror",
        ),
    ],
)
def test_a_file_of_settings_that_is_wrong_is_told_with_its_place(
    option: str, text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.json"
    file.write_text(text)
    assert build("--source", str(tmp_path), "--results", str(tmp_path / "r"), option, str(file)) == BAD_USE
    assert said in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("option", ["--prices", "--objectives", "--mirrors", "--storms"])
def test_a_file_of_settings_that_cannot_be_read_is_told(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--source", str(tmp_path), "--results", str(tmp_path / "r"), option]
    file = tmp_path / "settings.json"
    file.write_text('{"currency": "EUR"}', encoding="utf-16")
    for path, said in (
        (file, "is not UTF-8 text: save it as UTF-8"),
        (tmp_path, "cannot be read: Is a directory; give a file of JSON"),
        (tmp_path / "nowhere.json", "cannot be read: No such file or directory; give a file of JSON"),
    ):
        assert build(*given, str(path)) == BAD_USE
        assert capsys.readouterr().err == f"{option} {path} {said}\n"


def test_a_file_of_settings_may_begin_with_the_mark_of_utf_8(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"currency": "EUR"}', encoding="utf-8-sig")
    code = build("--source", str(tmp_path / "nowhere"), "--results", str(tmp_path / "r"), "--prices", str(file))
    assert code == BAD_USE
    assert "does not exist" in capsys.readouterr().err


def test_an_invalid_place_of_results_or_of_a_summary_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "source").mkdir()
    file = tmp_path / "a-file"
    file.touch()
    for results, said in (
        ("", "the name of the folder is empty"),
        ("kafka:127.0.0.1:9092/audit", "is a topic, but a folder"),
        (str(file), "a-file is a file: give a folder"),
    ):
        assert build("--source", str(tmp_path / "source"), "--results", results) == BAD_USE
        assert said in capsys.readouterr().err
    given = ("--source", str(tmp_path / "source"), "--results", str(tmp_path / "r"))
    assert build(*given, "--summary", str(tmp_path / "nowhere" / "summary.json")) == BAD_USE
    assert "give a file in an existing folder as --summary" in capsys.readouterr().err


def test_a_build_with_a_lost_manifest_or_lost_files_does_not_start_from_scratch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, results = tmp_path / "s", tmp_path / "r"
    source.mkdir()
    publish_rows(results, minutes_of_a_demo())
    (facts,) = (results / "usage").rglob("*.parquet")
    facts.unlink()
    before = {path: path.read_bytes() for path in results.rglob("*.parquet")}
    assert build("--source", str(source), "--results", str(results)) == BAD_USE
    assert "missing or empty (1), such as usage/" in capsys.readouterr().err
    (results / "_manifest.json").write_bytes(b"")
    assert build("--source", str(source), "--results", str(results)) == BAD_USE
    assert "give `build` another --results" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in results.rglob("*.parquet")} == before


def test_a_source_that_is_not_there_is_told_and_is_in_the_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = tmp_path / "summary.json"
    missing = str(tmp_path / "segmnts")
    code = build("--source", missing, "--results", str(tmp_path / "r"), "--summary", str(summary))
    assert code == BAD_USE
    assert f"folder {missing} does not exist" in capsys.readouterr().err
    found = json.loads(summary.read_text())
    assert (found["error"].startswith("folder "), found["version"], found["days"]) == (True, None, 0)


def test_results_of_another_format_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, results = tmp_path / "s", tmp_path / "r"
    source.mkdir()
    results.mkdir()
    (results / "_manifest.json").write_text('{"format": 1}')
    assert build("--source", str(source), "--results", str(results)) == BAD_USE
    assert "format 1, but this version reads format 5" in capsys.readouterr().err


def test_a_day_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build("--source", "a", "--results", "b", "--from", "2026-13-01")
    assert "2026-13-01 is not a day such as 2026-11-20" in capsys.readouterr().err


def test_a_retention_of_no_days_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build("--source", str(tmp_path), "--results", str(tmp_path / "r"), "--retention-days", "0") == BAD_USE
    assert "must be from 1 to" in capsys.readouterr().err


def test_a_retention_beyond_all_dates_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        build("--source", str(tmp_path), "--results", str(tmp_path / "r"), "--retention-days", "999999999") == BAD_USE
    )
    assert "must be from 1 to 36500" in capsys.readouterr().err


def test_the_summary_of_an_error_that_is_long_is_still_read(tmp_path: Path) -> None:
    summary, missing = tmp_path / "summary.json", "\N{SNOWMAN}" * 2000
    assert build("--source", f"./{missing}/x", "--results", str(tmp_path / "r"), "--summary", str(summary)) != 0
    assert summary.stat().st_size <= 4096
    assert json.loads(summary.read_text())["error"]


def test_missing_events_are_reported_at_the_end() -> None:
    complete = Manifest("v1", 0, {}, {"2026-11-20": {}}, summary={"missing": 0, "holes": 0, "quarantinedFiles": 0})
    assert described(complete, 3.2) == [
        "published 2026-11-20 as version v1 in 3 s",
        "the audit log is complete",
    ]
    missing = Manifest("v1", 0, {}, {"2026-11-20": {}}, summary={"missing": 1200, "holes": 0, "quarantinedFiles": 2})
    assert described(missing, 3)[1] == "the audit log is not complete: 1,200 events missing, 2 files set aside"


def test_a_range_without_events_is_reported_and_only_examined_days_count_as_complete() -> None:
    nothing = {"missing": 0, "holes": 0, "quarantinedFiles": 0}
    said = described(Manifest("v1", 0, {}, summary=nothing), 3, date(2030, 1, 1), date(2030, 1, 2))
    assert said == ["published no day as version v1 in 3 s", "no event was found from 2030-01-01 on up to 2030-01-02"]
    others = Manifest("v1", 0, {}, {"2026-11-20": {}, "2026-11-23": {}}, summary=nothing)
    assert "no event was found from 2026-11-24 on" in described(others, 3, date(2026, 11, 24))
    assert "no event was found from 2026-11-21 on up to 2026-11-22" in described(
        others, 3, date(2026, 11, 21), date(2026, 11, 22)
    )
    assert len(described(others, 3, date(2026, 11, 23))) == 2


def test_an_interrupted_build_is_reported_in_its_log_and_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("audit_pipeline.commands.commands_build._require_sources", interrupted)
    summary = tmp_path / "summary.json"
    assert build("--source", "a", "--results", str(tmp_path / "r"), "--summary", str(summary)) == 130
    assert json.loads(summary.read_text())["error"].startswith("the build was interrupted and has published nothing")
    assert [record.getMessage()[:25] for record in caplog.records] == ["the build was interrupted"]


def test_a_range_that_ends_before_it_begins_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    days = ("--from", "2026-11-21", "--to", "2026-11-20")
    assert build("--source", str(tmp_path), "--results", str(tmp_path.parent / "r"), *days) == BAD_USE
    assert "--from 2026-11-21 is after --to 2026-11-20" in capsys.readouterr().err


def test_an_empty_source_is_refused_until_there_are_results_which_stay_then(tmp_path: Path) -> None:
    empty = LandedSegments([str(tmp_path)], None, 0)
    with pytest.raises(BadUseError, match=f"no segments found in {tmp_path}: give the target"):
        nothing_in(empty, [str(tmp_path)], is_first=True)
    said = nothing_in(empty, [str(tmp_path)], is_first=False)
    assert said is not None
    assert f"{tmp_path} has no segments, perhaps because it is not mounted; the results stay" in said
    (tmp_path / "_expired.json").write_text('[["c", 0, "b", 7]]')
    assert nothing_in(LandedSegments([str(tmp_path)], None, 0), [str(tmp_path)], is_first=False) is None


@pytest.mark.parametrize("results", ["", "of/results"])
def test_results_within_the_source_are_refused(
    results: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build("--source", str(tmp_path), "--results", f"{tmp_path}/../{tmp_path.name}/{results}") == BAD_USE
    assert "are within the source" in capsys.readouterr().err


def test_the_summary_of_a_failure_is_json_however_long_its_error_is(tmp_path: Path) -> None:
    summary = tmp_path / "summary.json"
    missing = "/" + "\U0001f4a5" * 1500
    assert build("--source", missing, "--results", str(tmp_path / "r"), "--summary", str(summary)) == BAD_USE
    assert len(summary.read_bytes()) <= 4096
    assert json.loads(summary.read_text())["error"]
