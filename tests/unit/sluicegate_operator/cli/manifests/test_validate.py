"""The output of `sluicegate validate` for users, programs and GitHub."""

import json
from pathlib import Path

import pytest
import typer

from sluicegate_operator.cli.manifests.validate import ValidateOutput, validate

QUICKSTART = Path(__file__).parents[5] / "examples" / "quickstart"
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
LISTENER = """apiVersion: sluicegate.dev/v1alpha1
kind: BrokerListener
metadata: {name: shop-external}
spec: {clusterRef: {name: shop}, name: EXTERNAL, port: 9093}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a,b.yaml").write_text(f"{NAMESPACE}---\n{LISTENER}")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def test_what_is_valid_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    validate([QUICKSTART])
    assert "BrokerCluster shop: valid" in said(capsys)
    validate([QUICKSTART], ValidateOutput.GITHUB)
    assert "::error" not in said(capsys)
    validate([QUICKSTART], ValidateOutput.JSON)
    document = json.loads(said(capsys))
    assert (document["valid"], document["problems"]) == (True, [])
    assert {"kind": "BrokerCluster", "namespace": "default", "name": "shop"} in document["resources"]


def test_a_program_is_told_file_document_field_and_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as exit_:
        validate([folder], ValidateOutput.JSON)
    assert exit_.value.exit_code == 1
    document = json.loads(said(capsys))
    first, second = document["problems"]
    assert (document["valid"], document["resources"]) == (False, [])
    assert (first["document"], first["field"]) == (1, "apiVersion")
    assert (second["file"], second["document"], second["field"]) == (str(folder / "a,b.yaml"), 2, "spec.port")
    assert second["message"].startswith("ports 9091, 9093 and 9404 are reserved")


def test_github_shows_each_problem_at_its_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        validate([folder], ValidateOutput.GITHUB, skip_others=True)
    [line] = said(capsys).splitlines()
    assert line.startswith(
        f"::error file={folder}/a%2Cb.yaml,title=spec.port::{folder}/a,b.yaml, document 2: spec.port"
    )


def test_objects_of_other_groups_are_skipped_if_requested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "all.yaml").write_text(f"{NAMESPACE}---\n{LISTENER.replace('9093', '9094')}")
    validate([tmp_path], skip_others=True)
    assert said(capsys) == "BrokerListener shop-external: valid\n"
    with pytest.raises(typer.Exit):
        validate([tmp_path])


def test_a_folder_without_any_of_ours_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "all.yaml").write_text(NAMESPACE)
    with pytest.raises(typer.Exit):
        validate([tmp_path], ValidateOutput.JSON, skip_others=True)
    [problem] = json.loads(said(capsys))["problems"]
    assert (problem["file"], problem["message"]) == (str(tmp_path), "contains no resources")
