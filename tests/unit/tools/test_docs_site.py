"""What the site of docs/ makes of links and of blocks of code; `make docs` checks the rest."""

from pathlib import Path

from tools.docs_site import for_site, problems_of_blocks, with_folders


def test_links_of_readme_lead_to_pages_and_their_anchors() -> None:
    assert for_site("[how](docs/install.md#volumes)", source=".", page="") == "[how](install.md#volumes)"


def test_links_between_pages_of_docs_stay() -> None:
    for link in (
        "[a](../decisions/0003-unknown-keys-stop-the-broker.md)",
        "[b](#below)",
        "[c](https://example.org/x.md)",
    ):
        assert for_site(link, source="docs/reference", page="reference") == link


def test_a_link_to_readme_leads_to_the_first_page() -> None:
    assert for_site("[Install](../README.md#install)", source="docs", page="") == "[Install](index.md#install)"


def test_a_link_to_another_file_becomes_its_path() -> None:
    assert for_site("[e2e/README.md](e2e/README.md)", source=".", page="") == "`e2e/README.md`"
    assert for_site("[values](../deploy/README.md)", source="docs", page="") == "values (`deploy/README.md`)"
    assert for_site("[decisions](decisions)", source="docs", page="") == "`docs/decisions`"


def test_blocks_of_code_stay() -> None:
    text = "```\n[x](../README.md)\n```\n"
    assert for_site(text, source="docs", page="") == text


def test_a_block_that_does_not_end_and_one_that_is_not_yaml_are_problems() -> None:
    assert list(problems_of_blocks("```\na\n```\n\n```yaml\na: {b: 1}\n---\nc: 2\n```\n")) == []
    assert list(problems_of_blocks("```\na\n```\n\n```\nb\n")) == ["a block of code has no end"]
    [problem] = problems_of_blocks("```yaml\na: [\n```\n")
    assert problem.startswith("a block is not YAML: ")


def test_a_folder_of_the_navigation_stands_for_its_pages(tmp_path: Path) -> None:
    for name in ("b.md", "a.md", "c.png"):
        (tmp_path / "folder" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "folder" / name).touch()
    assert with_folders([{"Home": "index.md"}, {"All": "folder/"}], tmp_path) == [
        {"Home": "index.md"},
        {"All": ["folder/a.md", "folder/b.md"]},
    ]
