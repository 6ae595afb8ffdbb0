from pathlib import Path

import pytest

from e2e.kind import __main__ as entry
from e2e.kind.__main__ import main, parser


@pytest.fixture(autouse=True)
def _signals_are_the_tests_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "end_on_sigterm", lambda: None)


def test_a_command_keeps_its_own_options() -> None:
    chosen = parser().parse_args(["--name", "mine", "run", "--", "kubectl", "get", "nodes", "--output", "wide"])
    assert (chosen.name, chosen.deed) == ("mine", "run")
    assert chosen.command == ["kubectl", "get", "nodes", "--output", "wide"]


def test_a_name_is_asked_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLUICEGATE_KIND_NAME", raising=False)
    assert parser().parse_args(["down"]).name == "sluicegate"
    monkeypatch.setenv("SLUICEGATE_KIND_NAME", "other")
    assert parser().parse_args(["down"]).name == "other"


def test_invalid_use_prints_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--nodes", "0"]) == 1
    assert capsys.readouterr().err == "error: a cluster has 1 to 9 nodes, not 0\n"
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert main(["prepare"]) == 1
    assert "nodes take root" in capsys.readouterr().err


def test_down_of_a_missing_cluster_succeeds_without_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for module in ("cluster", "places"):
        monkeypatch.setattr(f"e2e.kind.{module}.RUN_ROOT", tmp_path)
    assert main(["--name", "never-was", "down"]) == 0


def test_only_root_takes_a_cluster_down(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert main(["down"]) == 1
    assert "nodes take root" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["up", "--image", "no.tar"], ["load", "no.tar"]])
def test_an_archive_that_is_not_there_is_refused_before_anything_is_done(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert "there is no file no.tar" in capsys.readouterr().err
