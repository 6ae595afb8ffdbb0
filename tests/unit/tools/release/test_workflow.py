"""The workflow of a public CI makes a release by the same command as a user."""

from pathlib import Path

import yaml

WORKFLOW = Path(__file__).parents[4] / ".github" / "workflows" / "release.yml"


def test_a_tag_of_a_version_makes_a_release_and_uploads_it() -> None:
    # YAML 1.1 reads the key `on` as true.
    workflow = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    assert workflow[True] == {"push": {"tags": ["v*"]}}
    build = workflow["jobs"]["build"]
    assert build["container"] == "debian:12"
    assert "make release" in [step.get("run") for step in build["steps"]]
    (uploaded,) = (step["with"] for step in build["steps"] if "upload-artifact" in step.get("uses", ""))
    assert uploaded["path"] == "dist/"
    assert workflow["jobs"]["publish"]["needs"] == "build"
