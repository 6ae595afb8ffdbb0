"""The program as its user runs it: from a spool to an answer, and the messages of failures."""

import csv
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import NoReturn

import pytest

from audit_pipeline import __main__ as program
from audit_pipeline.commands.commands import CELL_CHARS_MAX, client_of
from audit_pipeline.errors import BadUseError, StoppedError
from audit_pipeline.ingest.client_config import ClientProperties
from audit_pipeline.spool.spool_folder import is_written_to
from broker_runtime.storage.disk.filesystem import OsFileSystem
from tests.support.audit.audit import AuditBench


def run(arguments: list[str]) -> int:
    return program.main(arguments, Event())


def test_the_commands_work_from_a_spool_to_an_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spools, segments = str(tmp_path / "spools"), str(tmp_path / "segments")
    bench = AuditBench(OsFileSystem(), tmp_path / "spools")
    bench.produce("orders", 3)
    bench.log.close()
    assert run(["tail", spools, "--from-start", "--once", "--json", "--table", "partition"]) == 0
    assert json.loads(capsys.readouterr().out)["topic"] == "orders"
    assert run(["check", segments]) == 2
    assert run(["land", spools, segments]) == 0
    assert run(["check", segments]) == 0
    capsys.readouterr()
    assert run(["query", "SELECT topic, sum(bytes) AS bytes FROM partition GROUP BY ALL", "--target", segments]) == 0
    assert capsys.readouterr().out == "topic   bytes\norders  1000\n"
    assert run(["query", "SELECT nonsense", "--target", segments]) == 2
    assert run(["upkeep", segments]) == 0
    next((tmp_path / "segments").rglob("*.parquet")).unlink()
    assert run(["check", segments]) == 1


@pytest.fixture
def landed(tmp_path: Path) -> Path:
    """A folder with the folders spools and segments."""
    bench = AuditBench(OsFileSystem(), tmp_path / "spools", segment_ms="1000")
    bench.produce("orders")
    bench.timers.advance(2)
    assert run(["land", str(tmp_path / "spools"), str(tmp_path / "segments")]) == 0
    bench.produce("orders")
    bench.log.close()
    return tmp_path


def test_an_open_boot_is_a_finding_unless_the_cluster_runs(landed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segments = str(landed / "segments")
    assert run(["check", segments]) == 1
    assert "open: cluster-7-0001: the boot is open since 2023-11-14 22:13:21: " in capsys.readouterr().out
    assert run(["check", segments, "--running"]) == 0
    shown = capsys.readouterr().out
    assert "open: cluster-7-0001: the boot is open since 2023-11-14 22:13:21: " in shown
    assert shown.endswith(" 0 findings\n")


def test_a_question_is_answered_from_segments_and_spools_together(
    landed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--target", str(landed / "segments"), "--spools", str(landed / "spools"), "--json"]
    assert (
        run(["query", "SELECT sum(records) AS records, avg(records) AS mean, count(*) AS n FROM partition", *given])
        == 0
    )
    assert json.loads(capsys.readouterr().out) == {"records": 20, "mean": 10.0, "n": 2}


LONG = "SELECT repeat('x', 255) AS client_id, 7 AS n UNION ALL SELECT 'a, \"b\"', NULL ORDER BY n"


def test_a_long_value_does_not_push_the_others_out_of_the_screen(
    landed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["query", LONG, "--target", str(landed / "segments")]) == 0
    head, long, short = capsys.readouterr().out.splitlines()
    assert long == f"{'x' * (CELL_CHARS_MAX - 1)}…  7"
    assert short == 'a, "b"'
    assert head == f"{'client_id'.ljust(CELL_CHARS_MAX)}  n"


@pytest.mark.parametrize("output", ["json", "csv"])
def test_programs_get_whole_values(landed: Path, capsys: pytest.CaptureFixture[str], output: str) -> None:
    assert run(["query", LONG, "--target", str(landed / "segments"), "-o", output]) == 0
    text = capsys.readouterr().out
    if output == "json":
        found = [json.loads(line) for line in text.splitlines()]
    else:
        rows = list(csv.DictReader(io.StringIO(text)))
        found = [{"client_id": row["client_id"], "n": int(row["n"]) if row["n"] else None} for row in rows]
    assert found == [{"client_id": "x" * 255, "n": 7}, {"client_id": 'a, "b"', "n": None}]


def test_times_and_sums_are_written_alike_in_csv(landed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at, sums = "TIMESTAMPTZ '2026-01-02 03:04:05+00' AS at", "sum(records) AS records, avg(records) AS mean"
    sql = f"SELECT {at}, {sums} FROM partition"
    given = ["--target", str(landed / "segments"), "--spools", str(landed / "spools"), "-o", "csv"]
    assert run(["query", f"{sql} GROUP BY ALL", *given]) == 0
    assert capsys.readouterr().out == "at,records,mean\n2026-01-02T03:04:05+00:00,20,10.0\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["tail", "{}/nowhere"], "folder {}/nowhere does not exist: a broker writes its spools to the folder audit"),
        (["land", "{}/nowhere", "{}/segments"], "folder {}/nowhere does not exist: "),
        (["query", "SELECT 1", "--target", "{}/nowhere"], "folder {}/nowhere does not exist: "),
        (["query", "SELECT 1", "--spools", "{}/nowhere"], "folder {}/nowhere does not exist: "),
        (["query", "SELECT 1"], "no events to query: give --target, --spools, or both"),
        (["query", "SELEC", "--target", "{}/segments"], "syntax error"),
        (["query", "SELECT x FROM y", "--target", "{}/segments"], "The tables are request, partition, "),
        (["query", "SELECT 1", "--target", "{}/results"], "_manifest.json of the results is damaged"),
        (["check", "{}/results"], "_manifest.json of the results is damaged"),
        (
            ["query", "SELECT 1", "--target", "{}/results", "--spools", "{}/spools"],
            "{}/results has results, and spools have events: query one of them at a time",
        ),
        (["check", "{}/nowhere"], "no segments found in {}/nowhere: give the target of `land`"),
        (["check", "{}/a-file"], "folder {}/a-file does not exist: "),
        (["upkeep", "{}/nowhere"], "folder {}/nowhere does not exist: "),
        (
            ["land", "{}/spools", "{}/segments", "--retention-days", "30"],
            "--retention-days and --quota-bytes have no effect without --upkeep",
        ),
        (["check", ""], "the name of the folder is empty: give a folder, or a URI such as s3:"),
        (["upkeep", ""], "the name of the folder is empty: "),
        (["land", "{}/spools", ""], "the name of the folder is empty: "),
        (["query", "SELECT 1", "--target", ""], "the name of the folder is empty: "),
        (["land", "{}/spools", "{}/a-file"], "{}/a-file is a file: give a folder"),
        (
            ["land", "{}/spools", "kafka:127.0.0.1:9092/audit"],
            "of that name write ./kafka:127.0.0.1:9092/audit",
        ),
        (["check", "kafka:127.0.0.1:9092/audit"], "kafka:127.0.0.1:9092/audit is a topic, but a folder or URI is"),
        (["check", "ftp://server/segments"], "ftp://server/segments is not a target: give a folder, or a URI such as"),
    ],
)
def test_invalid_use_prints_an_error_that_says_what_to_do(
    landed: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    (landed / "a-file").touch()
    (landed / "results").mkdir()
    (landed / "results" / "_manifest.json").touch()
    assert run([argument.replace("{}", str(landed)) for argument in arguments]) == 2
    assert sentence.replace("{}", str(landed)) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--retention-days=-30", "-30 is not a whole number of at least 1 and at most 36500"),
        ("--retention-days=0", "0 is not a whole number of at least 1 and at most 36500"),
        ("--retention-days=30d", "30d is not a whole number of at least 1 and at most 36500"),
        ("--quota-bytes=0", "0 is not a whole number of at least 1"),
        ("--file-bytes=-1", "-1 is not a whole number of at least 1"),
    ],
)
def test_a_mistyped_limit_is_refused_before_it_deletes_everything(
    landed: Path, capsys: pytest.CaptureFixture[str], option: str, sentence: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["upkeep", str(landed / "segments"), option])
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err
    assert run(["check", "--running", str(landed / "segments")]) == 0


def test_upkeep_that_failed_has_the_exit_code_of_that(landed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> int:
        raise OSError("Input/output error")

    monkeypatch.setattr("audit_pipeline.upkeep.retention.expire", fails)
    assert run(["upkeep", str(landed / "segments")]) == 1


def test_land_reports_a_folder_without_complete_spools(
    landed: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert run(["land", str(tmp_path), str(tmp_path / "segments")]) == 0
    assert f"no spool in {tmp_path} is complete" in caplog.text


def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it(
    landed: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert run(["query", "SELECT 1", "--target", str(landed / "segments")]) == 2
    assert capsys.readouterr().err == "duckdb is not installed: pip install 'sluicegate[audit]'\n"


def test_a_lander_that_is_stopped_waits_for_the_broker_to_end_its_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = AuditBench(OsFileSystem(), tmp_path / "spools")
    bench.request()
    looks: list[bool] = []

    def look(folder: Path) -> bool:
        if len(looks) == 2:
            bench.log.close()
        looks.append(is_written_to(folder))
        return looks[-1]

    monkeypatch.setattr("audit_pipeline.spool.spool_folder.is_written_to", look)
    stopped = Event()
    stopped.set()
    assert program.main(["land", str(tmp_path / "spools"), str(tmp_path / "segments"), "--follow"], stopped) == 0
    assert looks == [True, True, False]
    assert not list((tmp_path / "spools").glob("*.spool"))
    assert run(["check", str(tmp_path / "segments")]) == 0
    assert capsys.readouterr().out.startswith("1 numbers of 1 boots in 1 segments")


def test_a_lander_that_is_stopped_does_not_wait_for_ever(tmp_path: Path) -> None:
    bench = AuditBench(OsFileSystem(), tmp_path / "spools")
    bench.request()
    stopped = Event()
    stopped.set()
    command = ["land", str(tmp_path / "spools"), str(tmp_path / "segments"), "--follow", "--stop-s", "0"]
    assert program.main(command, stopped) == 0
    assert len(list((tmp_path / "spools").glob("*.spool"))) == 1
    bench.log.close()


def test_a_spool_of_a_newer_broker_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("broker_runtime.observers.audit_log.spool.SCHEMA_VERSION", 2)
    AuditBench(OsFileSystem(), tmp_path).log.close()
    assert run(["tail", str(tmp_path), "--from-start", "--once"]) == 2
    assert "schema version 2" in capsys.readouterr().err


def test_spools_are_landed_while_upkeep_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker whose spools are full drops events, and the upkeep of a store has no time limit."""
    spools, stopped = tmp_path / "spools", Event()
    bench = AuditBench(OsFileSystem(), spools)
    bench.request()
    bench.log.close()
    landed: list[bool] = []

    def expires(*_: object) -> int:
        later = AuditBench(OsFileSystem(), spools, "0002")
        later.request()
        later.log.close()
        for _attempt in range(1200):
            if not list(spools.glob("*.spool")):
                break
            Event().wait(0.05)
        landed.append(not list(spools.glob("*.spool")))
        stopped.set()
        return 0

    monkeypatch.setattr("audit_pipeline.upkeep.retention.expire", expires)
    command = ["land", str(spools), str(tmp_path / "segments"), "--follow", "--upkeep", "--interval-s", "0.01"]
    assert program.main(command, stopped) == 0
    assert landed == [True]


def test_upkeep_of_a_lander_that_is_stopped_hears_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spools").mkdir()
    stopped = Event()

    def expires(_: object, __: object, is_stopped: Callable[[], bool]) -> NoReturn:
        assert not is_stopped()
        stopped.set()
        assert is_stopped()
        raise StoppedError

    monkeypatch.setattr("audit_pipeline.upkeep.retention.expire", expires)
    command = ["land", str(tmp_path / "spools"), str(tmp_path / "segments"), "--follow", "--upkeep"]
    assert program.main(command, stopped) == 0
    assert stopped.is_set()


def test_a_mistake_in_upkeep_ends_landing_as_one_in_landing_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spools").mkdir()

    def fails(*_: object) -> NoReturn:
        raise ValueError("a plan that nobody has written")

    monkeypatch.setattr("audit_pipeline.upkeep.retention.expire", fails)
    command = ["land", str(tmp_path / "spools"), str(tmp_path / "segments"), "--upkeep", "--interval-s", "0.01"]
    for more in ([], ["--follow"]):
        with pytest.raises(ValueError, match="nobody has written"):
            run([*command, *more])


def test_a_lander_says_by_its_exit_code_that_upkeep_failed(landed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> NoReturn:
        raise OSError("Input/output error")

    monkeypatch.setattr("audit_pipeline.upkeep.retention.expire", fails)
    assert run(["land", str(landed / "spools"), str(landed / "segments"), "--upkeep"]) == 1


def test_a_tail_that_is_stopped_shows_no_more_of_what_was_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = AuditBench(OsFileSystem(), tmp_path)
    for _ in range(3):
        bench.request()
    bench.log.close()
    looks = iter((False, True))
    stopped = Event()
    stopped.is_set = lambda: next(looks, True)  # type: ignore[method-assign]
    assert program.main(["tail", str(tmp_path), "--from-start", "--once"], stopped) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_tail_shows_what_was_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench = AuditBench(OsFileSystem(), tmp_path)
    bench.produce("orders", 3)
    bench.produce("stock", 0)
    bench.log.close()
    shown = ["tail", str(tmp_path), "--from-start", "--once"]
    for more, number in (
        (["--topic", "orders"], 1),
        (["--api", "Prod*"], 4),
        (["--client", "test", "--table", "partition"], 2),
        (["--client", "nobody"], 0),
    ):
        assert run([*shown, *more]) == 0
        assert len(capsys.readouterr().out.splitlines()) == number
    with pytest.raises(SystemExit):
        run([*shown, "--api", "produce"])
    assert "produce is not Kafka's name of an API such as Produce" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["seg:v2", "./seg:v2", "./kafka:v2"])
def test_a_folder_may_have_a_colon_in_its_name(landed: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.chdir(landed)
    (landed / "segments").rename(landed / place)
    assert run(["land", "spools", place]) == 0
    for command in (["check", place], ["upkeep", place], ["query", "SELECT seq FROM request", "--target", place]):
        assert run(command) == 0


def test_files_of_others_in_the_folder_that_is_landed_to_stay(landed: Path) -> None:
    others = [landed / "segments" / name for name in ("_notes.2024", "mine/_app.log.1", "_libfoo.so.1")]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.utime(path, (0, 0))
    assert run(["land", str(landed / "spools"), str(landed / "segments")]) == 0
    assert run(["upkeep", str(landed / "segments")]) == 0
    assert all(path.exists() for path in others)


def test_client_properties_are_for_topics_only(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SSL\n")
    assert client_of(path, "kafka:k:1/audit").spark == {"kafka.security.protocol": "SSL"}
    assert client_of(None, "segments") == ClientProperties()
    with pytest.raises(BadUseError, match="is for topics"):
        client_of(path, "segments")
