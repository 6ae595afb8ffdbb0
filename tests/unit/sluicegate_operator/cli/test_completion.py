"""Completion by typer's scripts for bash, zsh and fish: commands, options, and names in files of this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluicegate_operator.cli.completed_command import completed_command

ROOT = Path(__file__).parents[4]


def bash(words: str, cursor: int) -> dict[str, str]:
    return {"_SLUICEGATE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(cursor)}


def shell(name: str, words: str) -> dict[str, str]:
    found = {"_SLUICEGATE_COMPLETE": f"complete_{name}", "_TYPER_COMPLETE_ARGS": words}
    return found | ({"_TYPER_COMPLETE_FISH_ACTION": "get-args"} if name == "fish" else {})


def completed(environment: dict[str, str], folder: Path) -> str:
    path = f"import sys; sys.path[:0] = {[str(ROOT), str(ROOT / 'operator')]!r}\n"
    program = f"{path}from sluicegate_operator.cli.main import main; main([])"
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


@pytest.mark.parametrize(
    ("environment", "command"),
    [
        ({}, None),
        ({"COMP_WORDS": "sluicegate status --c", "COMP_CWORD": "2"}, None),
        (bash("sluicegate st", 1), None),
        (bash("sluicegate status --c", 2), "status"),
        (bash("sluicegate status ", 2), "status"),
        (bash("sluicegate audit query 'SELECT", 3), "audit"),
        (shell("zsh", "sluicegate st"), None),
        (shell("zsh", "sluicegate status "), "status"),
        (shell("fish", "sluicegate status --c"), "status"),
        ({"_SLUICEGATE_COMPLETE": "source_bash"}, None),
    ],
)
def test_the_command_before_the_cursor_is_known_when_its_word_has_ended(
    environment: dict[str, str], command: str | None
) -> None:
    assert completed_command(environment) == command


@pytest.mark.parametrize(
    "environment", [bash("sluicegate st", 1), shell("zsh", "sluicegate st"), shell("fish", "sluicegate st")]
)
def test_shells_complete_the_names_of_commands(environment: dict[str, str], tmp_path: Path) -> None:
    found = completed(environment, tmp_path)
    assert "status" in found
    assert "storm" in found
    assert "groups" not in found


def test_options_and_contexts_of_the_kubeconfig_are_completed(tmp_path: Path) -> None:
    assert completed(bash("sluicegate status --c", 2), tmp_path).split() == ["--context", "--cluster"]
    (tmp_path / ".kube").mkdir()
    contexts = {"contexts": [{"name": "prod"}, {"name": "production"}, {"name": "dev"}]}
    (tmp_path / ".kube" / "config").write_text(json.dumps(contexts))
    assert completed(bash("sluicegate status --context p", 3), tmp_path).split() == ["prod", "production"]


def test_clusters_of_a_running_up_are_completed(tmp_path: Path) -> None:
    (tmp_path / ".sluicegate").mkdir()
    (tmp_path / ".sluicegate" / "lock").write_text(f"{os.getpid()}\n")
    (tmp_path / ".sluicegate" / "state.json").write_text(json.dumps({"clusters": {"shop": {}, "ledger": {}}}))
    assert completed(bash("sluicegate quotas --cluster s", 3), tmp_path).split() == ["shop"]


@pytest.mark.parametrize("text", ["", "- [", "contexts: 3", "[]", "contexts: [3]"])
def test_a_file_that_is_no_kubeconfig_completes_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(text)
    environment = {"KUBECONFIG": f"{tmp_path / 'missing'}:{tmp_path / 'config'}"}
    assert completed(environment | bash("sluicegate status --context p", 3), tmp_path) == "\n"
