"""The data folder, and the state of `sluicegate up` in it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sluicegate_operator.cli.asking.brokers_asked import NobodyToAskError
from sluicegate_operator.cli.doctor.checks.results import Outcome
from sluicegate_operator.cli.doctor.reading.this_machine import folder_seen, machine_results


def test_a_folder_that_does_not_exist_is_judged_by_the_one_that_would_have_it(tmp_path: Path) -> None:
    seen = folder_seen(tmp_path / "a" / "b")
    assert (seen.path, seen.exists, seen.refusal) == (str(tmp_path / "a" / "b"), False, "")
    assert folder_seen(tmp_path).exists


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert folder_seen(tmp_path / "file").refusal == f"{tmp_path / 'file'} is not a folder"
    assert folder_seen(tmp_path / "file" / "below").refusal == f"{tmp_path / 'file'} is not a folder"


def test_a_folder_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The user root may write everywhere.
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert folder_seen(tmp_path).refusal == f"this user may not write into {tmp_path}"


def running(folder: Path, state: str) -> Path:
    (folder / "lock").write_text(f"{os.getpid()}\n")
    (folder / "state.json").write_text(state)
    return folder


async def outcome_of_up(folder: Path) -> tuple[Outcome, str]:
    [one] = [one for one in await machine_results(folder, None, "0.2.0") if one.check.name == "sluicegate up"]
    return one.outcome, one.sentence


async def test_without_up_its_nodes_are_skipped(tmp_path: Path) -> None:
    outcome, words = await outcome_of_up(tmp_path)
    assert outcome is Outcome.SKIPPED
    assert words.endswith("nodes, brokers, addresses and objects were not checked")


@pytest.mark.parametrize("state", ["{", "[]", "{}", '{"clusters": {"shop": {}}}'])
async def test_a_state_that_cannot_be_read_is_a_problem(tmp_path: Path, state: str) -> None:
    outcome, words = await outcome_of_up(running(tmp_path, state))
    assert (outcome, "state.json" in words) == (Outcome.PROBLEM, True)


async def test_a_cluster_that_up_does_not_run_is_wrong_use(tmp_path: Path) -> None:
    cluster: dict[str, Any] = {"nodes": [], "resources": [], "progress": {}}
    running(tmp_path, json.dumps({"clusters": {"shop": cluster}}))
    assert await outcome_of_up(tmp_path) == (Outcome.OK, "it runs shop")
    with pytest.raises(NobodyToAskError, match="--cluster bar: `up` runs shop"):
        await machine_results(tmp_path, "bar", None)
