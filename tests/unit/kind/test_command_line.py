import pytest

from e2e.kind.__main__ import main, parser


def test_a_command_keeps_its_own_options() -> None:
    chosen = parser().parse_args(["--name", "mine", "run", "--", "kubectl", "get", "nodes", "--output", "wide"])
    assert (chosen.name, chosen.deed) == ("mine", "run")
    assert chosen.command == ["kubectl", "get", "nodes", "--output", "wide"]


def test_a_name_is_asked_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLUICEGATE_KIND_NAME", raising=False)
    assert parser().parse_args(["down"]).name == "sluicegate"
    monkeypatch.setenv("SLUICEGATE_KIND_NAME", "other")
    assert parser().parse_args(["down"]).name == "other"


def test_what_cannot_be_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--nodes", "0"]) == 1
    assert capsys.readouterr().err == "error: a cluster has 1 to 9 nodes, not 0\n"
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert main(["prepare"]) == 1
    assert "nodes take root" in capsys.readouterr().err
