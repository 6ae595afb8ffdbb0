"""Examples and tables in pages, compared with the repository. Scenarios on nodes follow their commands."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from e2e.nodes.site.followed_page import PAGE as EXAMPLES
from e2e.nodes.site.readme import example_commands, install_commands
from sluicegate_operator.api.kinds import KINDS
from tests.support.pages.blocks import blocks, section

REPOSITORY = Path(__file__).parents[3]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
KIND = REPOSITORY / "docs" / "first-hour" / "kind.md"
FIRST_HOUR = sorted((REPOSITORY / "docs" / "first-hour").glob("*.md"))
FOLDERS = sorted(path.name for path in EXAMPLES.parent.iterdir() if path.is_dir())
FOLLOWED = ("quickstart", "observers", "quotas", "exposed", "high-availability", "audited")
_GET = re.compile(r"^\$ kubectl get (\w+)$")


def tables() -> Iterator[tuple[str, str, str]]:
    """Page, kind and headings of each `$ kubectl get KIND` with its output."""
    for page in PAGES:
        for block in blocks(page.read_text(encoding="utf-8")):
            for line, headings in pairwise(block):
                if found := _GET.match(line):
                    yield page.name, found[1], headings


def test_every_example_is_in_the_table() -> None:
    page = EXAMPLES.read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| [")]
    assert sorted(name for row in rows for name in re.findall(r"\[([\w-]+)\]\(", row.split("|")[1])) == FOLDERS


@pytest.mark.parametrize("example", FOLLOWED)
def test_commands_name_what_is_there(example: str) -> None:
    for command in example_commands(EXAMPLES.read_text(encoding="utf-8"), example):
        for path in re.findall(r"-f (\S+)", command):
            assert (REPOSITORY / path).exists(), command


def test_the_secure_example_names_what_is_there() -> None:
    page = (EXAMPLES.parent / "secure" / "README.md").read_text(encoding="utf-8")
    commands = example_commands(page, "On Kubernetes")
    named = {path for command in commands for path in re.findall(r"examples/[\w./-]+", command)}
    assert named
    assert [path for path in sorted(named) if not (REPOSITORY / path).exists()] == []


@pytest.mark.parametrize(("page", "kind", "headings"), list(tables()))
def test_a_table_has_the_columns_that_kubectl_prints(page: str, kind: str, headings: str) -> None:
    [shown] = [one.model for one in KINDS.values() if kind in (one.model.short_name, one.plural, one.name.lower())]
    plain = [column.name.upper() for column in shown.columns if column.priority == 0]
    assert headings.split() == ["NAME", *plain], page


def test_the_page_about_kind_installs_as_the_readme_does() -> None:
    readme = install_commands((REPOSITORY / "README.md").read_text(encoding="utf-8"))
    [commands] = blocks(section(KIND.read_text(encoding="utf-8"), "Install"))
    assert commands == readme[: len(commands)]
    assert commands[-1].startswith("kubectl get")
