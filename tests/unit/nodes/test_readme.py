from pathlib import Path

import pytest

from e2e.nodes.readme import install_commands

README = Path(__file__).parents[3] / "README.md"
OF_A_PAGE = "# A\n\n```\nmake up\n```\n\n## Install\n\nFirst:\n\n```\nhelm install\nkubectl apply\n```\n\n## Next\n"


def test_the_block_of_the_section_is_taken_and_no_other() -> None:
    assert install_commands(OF_A_PAGE) == ["helm install", "kubectl apply"]


def test_the_readme_installs_the_chart_and_waits_for_the_cluster() -> None:
    commands = install_commands(README.read_text())
    assert commands[0].startswith("helm install ")
    assert [command for command in commands if command.startswith("kubectl wait ")]


@pytest.mark.parametrize("page", ["# A\n", "# A\n\n## Install\n\nAsk us.\n\n## Next\n\n```\nmake up\n```\n"])
def test_a_page_without_one_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="no block of commands"):
        install_commands(page)
