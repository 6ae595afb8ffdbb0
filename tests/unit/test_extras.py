"""The distributions of an extra in pyproject.toml are enough for its purpose: tests have all extras but `docs`."""

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sluicegate_operator.cli.extras import EXTRAS as MODULES_OF_EXTRAS
from sluicegate_operator.cli.main import COMMANDS
from sluicegate_operator.cli.manifests.up import up

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]

PROGRAM = """
import importlib, pkgutil, sys

class Refusing:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in REFUSED:
            raise ModuleNotFoundError(f"{name} is of another extra", name=name)

sys.meta_path.insert(0, Refusing)
import audit_pipeline
for module in pkgutil.walk_packages(audit_pipeline.__path__, "audit_pipeline."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
from sluicegate_operator.cli.main import main
main(ARGUMENTS)
"""
OWN = {
    "sluicegate_operator",
    "broker_runtime",
    "audit_pipeline",
    "connection_limits",
    "kafka_bytes",
    "sluicegate_consumer",
}


CALLS = """
import contextlib, importlib, os, sys

sys.modules.update(dict.fromkeys(REFUSED))
from sluicegate_operator.cli.main import COMMANDS, main

# Each process has a copy of what is imported here.
for command in COMMANDS.values():
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module(f"sluicegate_operator.cli.{command.module}")

def call(arguments):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.dup2(1, 2)
        code = 70
        try:
            main(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except BaseException:
            import traceback
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

for arguments in CALLS:
    print(f"\\f{arguments}", flush=True)
    print(f"\\v{call(arguments)}", flush=True)
"""
"""Runs commands of the program, each in a process of its own, without the modules of extras."""


def distribution(requirement: str) -> str:
    (name,) = re.findall(r"^[A-Za-z0-9._-]+", requirement)
    return re.sub("[-_.]+", "-", str(name)).lower()


def closure(extra: str | None) -> set[str]:
    """The distributions that an extra brings, with their dependencies; None for the distribution without extras."""
    found: set[str] = set()
    waiting = [*PROJECT["dependencies"], *(EXTRAS[extra] if extra is not None else ())]
    while waiting:
        requirement = waiting.pop()
        if own := re.fullmatch(r"sluicegate\[(\w+)\]", requirement):
            waiting += EXTRAS[own[1]]
            continue
        name = distribution(requirement)
        if name not in found:
            found.add(name)
            waiting += needed_by(name)
    return found


def needed_by(name: str) -> list[str]:
    try:
        needed = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        # It is for another platform or version of Python.
        return []
    return [each for each in needed if not re.search(r"\bextra\s*==", each)]


def refused(extra: str | None) -> set[str]:
    """Modules that are installed here, and would not be by that extra alone, or without any."""
    brought = closure(extra)
    return {
        module
        for module, distributions in metadata.packages_distributions().items()
        if not brought.intersection(map(distribution, distributions))
        and module not in sys.stdlib_module_names
        and module not in OWN
    }


@pytest.mark.parametrize("arguments", [["audit", "--help"], ["audit", "query", "--help"]])
def test_the_extra_audit_is_all_that_its_commands_need(arguments: list[str]) -> None:
    left_out = refused("audit")
    assert {"kubernetes", "prometheus_client"} <= left_out
    program = PROGRAM.replace("REFUSED", repr(left_out)).replace("ARGUMENTS", repr(arguments))
    path = f"import sys; sys.path[:0] = {[str(ROOT), str(ROOT / 'operator')]!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", path + program], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Usage: sluicegate audit" in done.stdout


def call_without_extras(calls: list[list[str]], folder: Path) -> list[tuple[list[str], int, str]]:
    """Each call of the program with its exit code and output, as in an installation without extras."""
    program = CALLS.replace("REFUSED", repr(sorted(refused(None)))).replace("in CALLS", f"in {calls!r}")
    path = f"import sys; sys.path[:0] = {[str(ROOT), str(ROOT / 'operator')]!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", path + program], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    found = []
    for call, part in zip(calls, done.stdout.split("\f")[1:], strict=True):
        shown, _, code = part.partition("\n")[2].rpartition("\v")
        found.append((call, int(code), shown))
    return found


def test_every_command_has_its_help_without_extras(tmp_path: Path) -> None:
    audit = [["audit", name, "--help"] for name in ("tail", "land", "build", "publish")]
    calls = [["--help"], *([name, "--help"] for name in COMMANDS), *audit]
    for call, code, shown in call_without_extras(calls, tmp_path):
        assert code == 0, (call, shown)
        assert f"Usage: sluicegate {' '.join(call[:-1])}".strip() in shown, (call, shown)


def test_a_command_without_its_extra_says_in_a_sentence_which_it_needs(tmp_path: Path) -> None:
    manifest = str(ROOT / "examples" / "quickstart")
    calls = {
        ("broker", "--config", "server.properties"): "broker",
        ("up", "-f", manifest): "broker",
        ("status", "-n", "shop"): "kubernetes",
        ("quotas", "-n", "shop"): "kubernetes",
        ("why", "10.0.0.1", "-n", "shop"): "kubernetes",
        ("plan", "-f", manifest): "kubernetes",
        ("audit", "tail", "."): "landing",
        ("audit", "query", "SELECT 1", "--target", "."): "landing",
        ("audit", "check", "."): "landing",
        ("audit", "land", "a", "b"): "landing",
        ("audit", "build", "a"): "audit",
        ("audit", "publish", "a", "b"): "audit",
        ("what-if", "--in-force", "--audit", "a"): "landing",
        ("recommend", "--audit", "a"): "landing",
    }
    for call, code, shown in call_without_extras([list(call) for call in calls], tmp_path):
        extra = calls[tuple(call)]
        command = " ".join(call[: 2 if call[0] == "audit" else 1])
        assert shown == f"sluicegate {command} needs the extra {extra}: pip install 'sluicegate[{extra}]'\n", call
        assert code == (1 if call[0] == "plan" else 2)


def test_up_refuses_an_audit_log_without_what_lands_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    observer = {
        "apiVersion": "sluicegate.dev/v1alpha1",
        "kind": "ObserverPlugin",
        "metadata": {"name": "log", "namespace": "default"},
        "spec": {"clusterRef": {"name": "shop"}, "builtIn": "audit-log"},
    }
    (tmp_path / "observer.json").write_text(json.dumps(observer))
    done = CliRunner().invoke(app_of_up(), ["-f", str(tmp_path), "--data-dir", str(tmp_path / "data")])
    assert done.exit_code == 1
    assert done.stderr == (
        "ObserverPlugin log: an audit log needs the extra landing: pip install 'sluicegate[landing]', or set enabled "
        "to false\n"
    )


def app_of_up() -> typer.Typer:
    app = typer.Typer()
    app.command()(up)
    return app


def test_commands_that_need_no_extra_run_without_any(tmp_path: Path) -> None:
    manifest = str(ROOT / "examples" / "quickstart")
    calls = [
        ["validate", "-f", manifest],
        ["plan", "-f", manifest, "--against", manifest],
        ["crds"],
        ["status"],
        ["groups", "list"],
    ]
    found = call_without_extras(calls, tmp_path)
    assert [code for _, code, _ in found[:3]] == [0, 0, 0], found
    assert "kind: CustomResourceDefinition" in found[2][2]
    for _, code, shown in found[3:]:
        assert code in (1, 2)
        assert "Traceback" not in shown
        assert "extra" not in shown


def test_the_modules_of_extras_are_those_that_the_extras_bring() -> None:
    of_module = metadata.packages_distributions()
    for extra, modules in MODULES_OF_EXTRAS.items():
        assert {distribution(of_module[module][0]) for module in modules} <= closure(extra), extra
        assert refused(None) >= set(modules), extra
