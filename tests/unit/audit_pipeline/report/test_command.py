"""`report` as its user runs it."""

import json
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from audit_pipeline import __main__ as program
from tests.support.audit.published_results import MIRROR, SHOP, minutes_of_a_demo, publish_rows


def run(*arguments: str) -> int:
    return program.main(["report", *arguments], Event())


def test_the_answers_are_printed_and_the_page_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish_rows(tmp_path / "results", minutes_of_a_demo())
    out = tmp_path / "page.html"
    assert run("--results", str(tmp_path / "results"), "--out", str(out), "--days", "3") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Is the audit complete? Yes. All 2,700 events of 1 broker are recorded")
    assert lines[2].startswith("Who caused the last storm? storm from 127.0.0.2. On 2026-11-22 09:30:20 UTC, for 20 s,")
    assert str(out) in lines[5]
    assert out.read_text().startswith("<!doctype html>")
    assert json.loads((tmp_path / "page.json").read_text())["days"] == 3


def test_both_can_be_put_beside_the_results(tmp_path: Path) -> None:
    publish_rows(tmp_path, minutes_of_a_demo())
    assert run("--results", str(tmp_path), "--publish") == 0
    assert {"report.html", "report.json"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ((), "no results are published yet: run `build`"),
        (("--days", "0"), "--days"),
        (("--cluster-name", "shop"), "shop is not a cluster ID and a name, such as"),
        (("--days", "x"), "x is not a whole number of at least 1 and at most 366"),
        (("--days", "2", "--from", "2026-11-22"), "--days and --from both set the beginning of the report: give one"),
        (("--from", "2026-11-22", "--to", "2026-11-21"), "--from is not before --to"),
        (("--out", "page.json"), "page.json"),
        (("--out", "nowhere/page.html"), "folder nowhere for the page does not exist: create it, or give"),
    ],
)
def test_invalid_arguments_are_reported(
    tmp_path: Path, more: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if more:
        publish_rows(tmp_path, {})
    try:
        code = run("--results", str(tmp_path), *more)
    except SystemExit as exit_:
        code = int(str(exit_.code))
    assert code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "names files that are missing or empty (1), such as usage/event_date=2026-11-22/"),
        (b"", "names files that are missing or empty (1), such as usage/event_date=2026-11-22/"),
        (b"PAR1 torn", "of the results is damaged"),
    ],
)
def test_a_file_of_the_results_that_is_missing_or_damaged_is_told_with_what_to_do(
    tmp_path: Path, content: bytes | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    publish_rows(tmp_path / "results", minutes_of_a_demo())
    (file,) = (tmp_path / "results" / "usage").rglob("*.parquet")
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    assert run("--results", str(tmp_path / "results"), "--out", str(tmp_path / "page.html")) == 2
    said = capsys.readouterr().err
    assert says in said
    assert "give `build` another --results" in said
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("", "the name of the folder is empty"),
        ("kafka:127.0.0.1:9092/audit", "is a topic, but a folder or URI is needed here"),
        ("a-file", "a-file is a file: give a folder"),
        ("a-file/below", "a-file is a file: give a folder"),
    ],
)
def test_an_invalid_place_of_results_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a-file").touch()
    monkeypatch.chdir(tmp_path)
    assert run("--results", place) == 2
    assert says in capsys.readouterr().err


def subjects(out: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(out.with_suffix(".json").read_text())["subjects"]
    return read


def test_the_page_is_about_the_time_and_the_cluster_that_were_asked_for(told: Path, tmp_path: Path) -> None:
    out, place = tmp_path / "page.html", ("--results", str(told), "--out", str(tmp_path / "page.html"))
    window = ("--from", "2026-11-20T09:00", "--to", "2026-11-20T11:00")
    assert run(*place, *window, "--cluster", "shop-7*") == 0
    found = subjects(out)
    begin_us = round(datetime(2026, 11, 20, 9, tzinfo=UTC).timestamp() * 1e6)
    assert found["windows"]["shown"] == {"from_us": begin_us, "to_us": begin_us + 7_200_000_000}
    assert [each["cluster_id"] for each in found["clusters"]] == [SHOP]
    assert {pair["cluster_id"] for pair in found["usage"]["pairs"]} == {SHOP}
    assert {pair["first_us"] >= begin_us for pair in found["usage"]["pairs"]} == {True}
    assert found["storms"]["total"] == 0
    assert MIRROR not in out.read_text()
    assert "2026-11-20 09:00 to 2026-11-20 11:00 UTC" in out.read_text()


def test_clusters_are_shown_by_their_names(told: Path, tmp_path: Path) -> None:
    place = ("--results", str(told), "--out", str(tmp_path / "page.html"))
    assert run(*place, "--cluster-name", f"{SHOP}=retail/shop", "--cluster-name", f"{MIRROR}=eu/shop") == 0
    text = (tmp_path / "page.html").read_text()
    assert 'broker 1 of cluster <bdi class="name">retail/shop</bdi>' in text
    assert 'data-cluster="eu/shop"' in text
    assert SHOP not in text
    read = json.loads((tmp_path / "page.json").read_text())
    assert read["cluster_names"] == {SHOP: "retail/shop", MIRROR: "eu/shop"}
    assert [each["cluster_id"] for each in read["subjects"]["clusters"]] == [SHOP, MIRROR]


def test_clusters_with_one_name_are_told_apart_by_their_ids(told: Path, tmp_path: Path) -> None:
    names = ("--cluster-name", f"{SHOP}=a/shop", "--cluster-name", f"{MIRROR}=a/shop", "--cluster", "a/*")
    assert run("--results", str(told), "--out", str(tmp_path / "page.html"), *names) == 0
    assert f"a/shop ({SHOP})" in (tmp_path / "page.html").read_text()


def test_files_set_aside_without_a_known_cluster_may_be_of_any(told: Path, tmp_path: Path) -> None:
    assert run("--results", str(told), "--out", str(tmp_path / "page.html"), "--cluster", MIRROR) == 0
    found = subjects(tmp_path / "page.html")
    assert found["completeness"]["unplaced_files"] == 1
    assert {broker["cluster_id"] for broker in found["completeness"]["brokers"]} <= {MIRROR}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--cluster", "stock"), f"the results have no cluster stock: --cluster is one of {SHOP}, {MIRROR}"),
        (("--from", "2027-01-01"), "the results have events from 2026-11-08T00:00 to 2026-11-22T18:04 UTC: give"),
    ],
)
def test_the_error_for_what_the_results_do_not_have_says_what_they_have(
    told: Path, tmp_path: Path, more: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--results", str(told), "--out", str(tmp_path / "page.html"), *more) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()
