"""Writes the number of a new version into the files that name it, and heads its section in CHANGELOG.md."""

import tomllib
from datetime import UTC, datetime
from pathlib import Path

from tools.release.changelog import check_version, with_section
from tools.release.errors import ReleaseError

_NAMES = "sluicegate{}"
"""Stands for the names of images and archives."""
PLACES = {
    "pyproject.toml": 'version = "{}"\n',
    "packaging/consumer/pyproject.toml": 'version = "{}"\n',
    "broker_runtime/release.py": 'VERSION = "{}"\n',
    "operator/sluicegate_operator/resources/audit/audit_job.py": _NAMES,
    "operator/sluicegate_operator/resources/nodes/statefulset.py": _NAMES,
    "charts/sluicegate/Chart.yaml": "ersion: {}\n",
    "README.md": _NAMES,
    "deploy/README.md": _NAMES,
    "docs/first-hour/kind.md": _NAMES,
    "docs/reference/audit-pipeline.md": _NAMES,
    "docs/storm-on-kubernetes.md": _NAMES,
    "e2e/README.md": _NAMES,
    "examples/README.md": _NAMES,
    "examples/secure/README.md": _NAMES,
    "examples/secure/kubernetes/clients.yaml": _NAMES,
    "tests/unit/sluicegate_operator/preview/test_manifests.py": _NAMES,
}
"""The line or words that name the version, by file. `make release-version` also writes what is generated."""


def set_version(root: Path, version: str, day: str | None = None) -> list[str]:
    """Write the version and the section of the changelog, and return the changed files. Raises ReleaseError."""
    check_version(version)
    old = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    changelog = root / "CHANGELOG.md"
    texts = {
        changelog: with_section(changelog.read_text(encoding="utf-8"), version, day or f"{datetime.now(UTC):%Y-%m-%d}")
    }
    for name, words in PLACES.items():
        text = (root / name).read_text(encoding="utf-8")
        new = _renumbered(text, words, old, version)
        if new == text and old != version:
            raise ReleaseError(f"{name} does not name the version {old}")
        texts[root / name] = new
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return [str(path.relative_to(root)) for path in texts]


def _renumbered(text: str, words: str, old: str, new: str) -> str:
    if words != _NAMES:
        return text.replace(words.format(old), words.format(new))
    for separator in (":", "-", "-audit:", "-audit-"):
        text = text.replace(f"sluicegate{separator}{old}", f"sluicegate{separator}{new}")
    return text
