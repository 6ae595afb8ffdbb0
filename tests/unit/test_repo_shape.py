"""The repository checks its own shape: sizes, the `operator/` source root, generated pages."""

import ast
import subprocess
from pathlib import Path

import pytest

from tools.reference import PAGES, REFERENCE

ROOT = Path(__file__).resolve().parents[2]
MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
PUBLIC_METHODS_MAX = 12
VAGUE_NAMES = {"utils", "helpers", "common", "misc"}


def tracked(pattern: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for line in listed.stdout.splitlines() if (path := ROOT / line).is_file()]


PYTHON = tracked("*.py")


def test_the_operator_folder_is_a_source_root_and_never_a_package() -> None:
    assert not list((ROOT / "operator").glob("*.py"))
    inside = {path.name for path in (ROOT / "operator").rglob("*.py")}
    assert not {name for name in inside if name.startswith(("test_", "conftest"))}


def test_no_module_is_over_the_limit() -> None:
    sizes = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in PYTHON}
    assert {name: size for name, size in sizes.items() if size > MODULE_LINES_MAX} == {}


def test_no_function_is_over_the_limit() -> None:
    long = {}
    for path in PYTHON:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = (node.end_lineno or node.lineno) - node.lineno + 1
                if size > FUNCTION_LINES_MAX:
                    long[f"{path.relative_to(ROOT)}:{node.name}"] = size
    assert long == {}


def test_no_class_has_too_many_public_methods() -> None:
    """Properties count; a class has what it says itself, not what it inherits."""
    large = {}
    for path in tracked("broker_runtime/*.py") + tracked("operator/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                methods = [part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
                public = {method.name for method in methods if not method.name.startswith("_")}
                if len(public) > PUBLIC_METHODS_MAX:
                    large[f"{path.relative_to(ROOT)}:{node.name}"] = len(public)
    assert large == {}


def test_modules_are_named_for_what_they_own() -> None:
    assert not [path for path in PYTHON if path.stem in VAGUE_NAMES]


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_have_not_drifted(name: str) -> None:
    assert (REFERENCE / name).read_text(encoding="utf-8") == PAGES[name](), "run `make crds` and commit the result"
