import argparse
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from audit_pipeline.__main__ import parser
from sluicegate_operator.cli import audit as command


def pipeline_commands() -> dict[str, argparse.ArgumentParser]:
    (found,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    return dict(found.choices)


@pytest.fixture
def become(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments with which this process would have been replaced."""
    given: list[str] = []

    def execv(_: str, arguments: list[str]) -> None:
        given.extend(arguments[3:])

    monkeypatch.setattr("os.execv", execv)
    return given


def invoke(*arguments: Any) -> int:
    return CliRunner().invoke(command.audit, [str(argument) for argument in arguments]).exit_code


def test_every_command_of_the_pipeline_is_one_of_the_program() -> None:
    group = typer.main.get_command(command.audit)
    assert set(group.commands) == pipeline_commands().keys()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        (("check", "s3://bucket/path"), ["check", "--", "s3://bucket/path"]),
        (
            ("check", "--running", "--segment-ms", "5000", "kept"),
            ["check", "--running", "--segment-ms", "5000", "--", "kept"],
        ),
        (("tail", "a", "b", "--table", "gap", "--once"), ["tail", "--table", "gap", "--once", "--", "a", "b"]),
        (
            ("tail", "a", "--client", "-x*", "--topic", "orders", "--api", "Produce", "--own", "--json"),
            ["tail", "--client=-x*", "--topic=orders", "--api=Produce", "--own", "--json", "--", "a"],
        ),
        (
            ("query", "--target", "x", "--spools", "y", "S"),
            ["query", "--spools", "y", "--target", "x", "--output", "table", "--", "S"],
        ),
        (("query", "--target", "x", "S", "-o", "csv"), ["query", "--target", "x", "--output", "csv", "--", "S"]),
        (("query", "--target", "x", "S", "--json"), ["query", "--target", "x", "--output", "json", "--", "S"]),
        (("land", "a", "b", "--follow", "--help"), ["land", "a", "b", "--follow", "--help"]),
        (("keep", "--variables", "v", "a", "b"), ["keep", "--variables", "v", "a", "b"]),
    ],
)
def test_arguments_are_handed_on(become: list[str], given: tuple[str, ...], becomes: list[str]) -> None:
    assert invoke(*given) == 0
    assert become == becomes


def test_without_folders_those_of_up_are_taken(become: list[str], tmp_path: Path) -> None:
    spools, segments = tmp_path / "shop" / "node-0" / "data" / "audit", tmp_path / "shop" / "audit"
    spools.mkdir(parents=True)
    segments.mkdir()
    assert invoke("query", "SELECT 1", "--data-dir", tmp_path) == 0
    assert become[:5] == ["query", "--spools", str(spools), "--target", str(segments)]
    assert vars(pipeline_commands()["query"].parse_args(become[1:]))["sql"] == "SELECT 1"


def test_no_command_starts_if_up_has_no_audit_log(become: list[str], tmp_path: Path) -> None:
    assert invoke("tail", "--data-dir", tmp_path) == 2
    assert become == []
