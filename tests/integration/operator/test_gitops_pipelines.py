"""The examples for pipelines: their own commands, run as in the pipeline, on good and on bad manifests."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.processes.local_fleet import QUICKSTART, copy_quickstart, edit

PIPELINES = Path(__file__).parents[3] / "examples" / "gitops" / "pipelines"
TIMEOUT_S = 60


def github_commands(name: str = "validate") -> list[str]:
    job = yaml.safe_load((PIPELINES / "github-actions.yaml").read_text())["jobs"]["validate"]
    return [step["run"] for step in job["steps"] if step.get("name") == name]


def gitlab_commands() -> list[str]:
    script: list[str] = yaml.safe_load((PIPELINES / "gitlab-ci.yaml").read_text())["validate"]["script"]
    return script


def github_shell(name: str) -> tuple[str, ...]:
    """Return GitHub's shell: a step with `shell: bash` has pipefail, a step without it does not."""
    job = yaml.safe_load((PIPELINES / "github-actions.yaml").read_text())["jobs"]["validate"]
    [step] = [step for step in job["steps"] if step.get("name") == name]
    return ("bash", "-eo", "pipefail") if step.get("shell") == "bash" else ("bash", "-e")


def run(
    commands: list[str], manifests: Path, folder: Path, shell: Sequence[str] = ("bash", "-eo", "pipefail")
) -> "subprocess.CompletedProcess[str]":
    """Run commands in a shell that ends at the first failure, like both pipelines, with only the installed commands."""
    environment: dict[str, Any] = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"]),
        "HOME": str(folder),
        "FOLDER": str(manifests),
        "DEPLOYED": str(QUICKSTART),
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
    }
    return subprocess.run(
        [*shell, "-c", "\n".join(commands)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    manifests = copy_quickstart(tmp_path)
    edit(manifests / "quotas.yaml", "Rate: 50", "Rate: many")
    return manifests


def test_github_is_told_at_the_file(broken: Path, tmp_path: Path) -> None:
    good = run(github_commands(), QUICKSTART, tmp_path)
    assert (good.returncode, good.stderr) == (0, "")
    assert "BrokerCluster shop: valid" in good.stdout
    bad = run(github_commands(), broken, tmp_path)
    assert bad.returncode == 1
    assert f"::error file={broken / 'quotas.yaml'},title=spec.maxConnectionCreationRate::" in bad.stdout


def test_gitlab_is_told_and_keeps_the_json(broken: Path, tmp_path: Path) -> None:
    good = run(gitlab_commands(), QUICKSTART, tmp_path)
    assert (good.returncode, good.stderr) == (0, "")
    assert json.loads((tmp_path / "validate.json").read_text())["valid"] is True
    bad = run(gitlab_commands(), broken, tmp_path)
    assert bad.returncode == 1
    assert "spec.maxConnectionCreationRate: must be a whole number" in bad.stderr
    [problem] = json.loads((tmp_path / "validate.json").read_text())["problems"]
    assert problem["field"] == "spec.maxConnectionCreationRate"


def test_a_pull_request_is_told_which_brokers_would_restart(tmp_path: Path) -> None:
    manifests = copy_quickstart(tmp_path)
    shell = github_shell("plan")
    same = run(github_commands("plan"), QUICKSTART, tmp_path, shell)
    assert (same.returncode, same.stderr) == (0, "")
    assert "no node restarts" in same.stdout
    edit(manifests / "cluster.yaml", "num.partitions", "num.io.threads")
    changed = run(github_commands("plan"), manifests, tmp_path, shell)
    assert changed.returncode == 0, "a restart is told and is no failure"
    assert "restarts shop-brokers-0" in (tmp_path / "summary").read_text()
    edit(manifests / "cluster.yaml", "10Gi", "1Gi")
    assert run(github_commands("plan"), manifests, tmp_path, shell).returncode == 1
