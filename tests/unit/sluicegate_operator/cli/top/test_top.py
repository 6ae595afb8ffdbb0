"""The command `sluicegate top`: its sources, its plain text, and what it says if it cannot run."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from sluicegate_operator.cli.top import top as command
from sluicegate_operator.cli.top.sources.kafka_answers import KafkaPlace
from tests.support.fakes.synthetic_console import SyntheticSource

ROOT = Path(__file__).parents[5]


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(command.top)
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def synthetic(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def source(data_dir: Path, cluster: str | None) -> AsyncIterator[SyntheticSource]:
        yield SyntheticSource()

    monkeypatch.setattr(command, "source_here", source)
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.mark.usefixtures("synthetic")
def test_once_prints_all_tables() -> None:
    done = run("--once", "--refresh", "0.1")
    assert done.exit_code == 0
    assert next(line for line in done.stdout.splitlines() if line.endswith(")")) == "Brokers (3)"
    assert "Partitions (7)" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.usefixtures("synthetic")
def test_once_prints_one_table_with_a_filter() -> None:
    done = run("--once", "--refresh", "0.1", "--view", "limits", "--filter", "external")
    assert "Limits (1)" in done.stdout
    assert "Brokers (" not in done.stdout


@pytest.mark.usefixtures("synthetic")
def test_without_a_terminal_the_console_says_what_to_do() -> None:
    done = run()
    assert done.exit_code == 2
    assert done.stderr == (
        "`sluicegate top` needs a terminal, and its input or output is none: use --once to print the tables\n"
    )


@pytest.mark.usefixtures("synthetic")
def test_without_textual_the_console_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{command.__name__}.is_missing", lambda extra: extra == "top")
    done = run()
    assert done.exit_code == 2
    assert "needs the extra top: pip install 'sluicegate[top]'; --once prints" in done.stderr


def test_where_nothing_runs_the_command_says_so(tmp_path: Path) -> None:
    done = run("--once", "--data-dir", str(tmp_path))
    assert done.exit_code == 1
    assert "no `sluicegate up` runs in" in done.stderr


def test_a_bad_bootstrap_server_is_refused() -> None:
    done = run("--once", "--bootstrap-server", "nowhere")
    assert (done.exit_code, "write HOST:PORT" in done.stderr) == (2, True)


def test_a_bootstrap_server_beside_a_namespace_needs_the_name_of_its_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[KafkaPlace | None] = []

    @asynccontextmanager
    async def source(place: object, cluster: str | None, kafka: KafkaPlace | None) -> AsyncIterator[SyntheticSource]:
        given.append(kafka)
        yield SyntheticSource()

    monkeypatch.setattr(command, "source_in_kubernetes", source)
    options = ("--once", "--refresh", "0.1", "-n", "kafka", "--bootstrap-server", "127.0.0.1:9092")
    done = run(*options)
    assert done.exit_code == 2
    assert "needs --cluster" in done.stderr
    assert run(*options, "--cluster", "shop").exit_code == 0
    assert [(place.cluster, place.only_kafka) for place in given if place is not None] == [("shop", False)]


@pytest.mark.parametrize("arguments", [["status", "--help"], ["quotas", "--help"], ["top", "--help"]])
def test_commands_start_without_textual(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        f"sys.path[:0] = {[str(ROOT), str(ROOT / 'operator')]!r}\n"
        "from sluicegate_operator.cli.main import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit:\n    pass\n"
        "sys.exit(len([name for name in sys.modules if name.partition('.')[0] == 'textual']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: sluicegate" in done.stdout
