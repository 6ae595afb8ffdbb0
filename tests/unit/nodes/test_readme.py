from pathlib import Path

import pytest

from e2e.nodes.site.readme import example_commands, install_commands
from tests.support.pages.blocks import blocks

REPOSITORY = Path(__file__).parents[3]
README = REPOSITORY / "README.md"
OF_A_PAGE = """# A

```
helm install before
```

## Install

First:

```
make kind
```

```
helm install it
kubectl apply
```

## observers

```
kubectl edit
```

```sh
kubectl apply -f examples/observers/

kubectl get op
```

## exposed

Change it.
"""


def test_the_block_that_installs_is_taken_and_no_other() -> None:
    assert install_commands(OF_A_PAGE) == ["helm install it", "kubectl apply"]


def test_the_readme_installs_the_chart_and_waits_for_the_cluster() -> None:
    commands = install_commands(README.read_text(encoding="utf-8"))
    assert commands[0].startswith("helm install ")
    assert [command for command in commands if command.startswith("kubectl wait ")]


def test_the_readme_makes_a_cluster_before_it_installs_into_it() -> None:
    lines = [line for block in blocks(README.read_text(encoding="utf-8")) for line in block]
    assert lines.index("make image kind helm") < lines.index(install_commands(README.read_text(encoding="utf-8"))[0])


@pytest.mark.parametrize("page", ["# A\n\n## Install\n\nAsk us.\n\n## Next\n\n```\nhelm install it\n```\n"])
def test_a_page_whose_section_installs_nothing_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="no block of commands"):
        install_commands(page)


def test_the_blocks_of_sh_of_an_example_are_its_commands() -> None:
    assert example_commands(OF_A_PAGE, "observers") == ["kubectl apply -f examples/observers/", "kubectl get op"]


def test_an_example_without_commands_and_one_that_is_not_there_are_refused() -> None:
    with pytest.raises(ValueError, match="no commands for exposed"):
        example_commands(OF_A_PAGE, "exposed")
    with pytest.raises(ValueError, match="no section 'quotas'"):
        example_commands(OF_A_PAGE, "quotas")
