"""The distributions of an extra in pyproject.toml are enough for its purpose: tests have all extras but `docs`."""

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]

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
OWN = {"sluicegate_operator", "broker_runtime", "audit_pipeline", "connection_limits", "kafka_bytes"}


def distribution(requirement: str) -> str:
    (name,) = re.findall(r"^[A-Za-z0-9._-]+", requirement)
    return re.sub("[-_.]+", "-", str(name)).lower()


def closure(extra: str) -> set[str]:
    """The distributions that an extra brings, with their dependencies."""
    found: set[str] = set()
    waiting = list(EXTRAS[extra])
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


def refused(extra: str) -> set[str]:
    """Modules that are installed here, and would not be by that extra alone."""
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
