"""The terminals in which tests follow a page: what they run, and what fails."""

from pathlib import Path

import pytest

from tests.support.pages.storm_table import accepted
from tests.support.pages.terminals import PageError, Terminals

PAGE = """# A page

```
exit 1          # a block of another kind is not run
```

```sh
cd inner
pwd             # the folder stays for the terminal
echo at ADDRESS > file
```

```sh
ls              # the same terminal
```

```sh
cd .            # another terminal
ls
```
"""


def test_blocks_are_run_in_their_terminals(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    with Terminals(tmp_path, {}, changes={"ADDRESS": "127.0.0.1:7"}) as terminals:
        terminals.follow(PAGE)
        assert terminals.commands == [
            "cd inner", "pwd", "echo at 127.0.0.1:7 > file", "ls", "cd .", "ls",
        ]  # fmt: skip
        assert terminals.output("pwd") == f"{tmp_path / 'inner'}\n"
    assert (tmp_path / "inner" / "file").read_text() == "at 127.0.0.1:7\n"
    assert terminals.output("ls") == "inner\n", "the last terminal is in the first folder"


def test_a_command_that_fails_is_an_error_with_its_output(tmp_path: Path) -> None:
    with Terminals(tmp_path, {}) as terminals, pytest.raises(PageError, match="exit code 3\nwhy"):
        terminals.follow("```sh\necho why; exit 3\n```\n")


def test_a_continuing_command_runs_beside_the_next_ones_until_it_is_interrupted(tmp_path: Path) -> None:
    page = "```sh\necho ready; trap 'echo stopped; exit' INT; while true; do sleep 0.05; done\necho next\n```\n"
    with Terminals(tmp_path, {"echo ready": "ready"}) as terminals:
        terminals.follow(page)
        assert terminals.output("echo next") == "next\n"
        assert terminals.interrupt("echo ready") == "ready\nstopped\n"


def test_a_continuing_command_that_ends_too_early_is_an_error(tmp_path: Path) -> None:
    with Terminals(tmp_path, {"echo": "ready"}) as terminals, pytest.raises(PageError, match="before 'ready'"):
        terminals.follow("```sh\necho failed\n```\n")


def test_a_screen_gets_the_key_q_when_it_shows_the_text(tmp_path: Path) -> None:
    page = '```sh\necho shown; read -n 1 key; [ -t 1 ] && [ "$key" = q ]\n```\n'
    with Terminals(tmp_path, {}, {"echo shown": "shown"}) as terminals:
        terminals.follow(page)
        assert "shown" in terminals.output("echo shown")


def test_the_accepted_connections_of_a_storm() -> None:
    assert accepted("│ 127.0.1.1 │ 10 │ 3 │\n│ all       │    18000 │     2985 │  9 │\n300.0 attempts/s\n") == 2985
    with pytest.raises(ValueError, match="no table"):
        accepted("nothing")
