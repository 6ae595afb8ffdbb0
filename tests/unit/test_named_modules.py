"""Docstrings and comments that name a module of their program name one that exists."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("broker_runtime", "operator/sluicegate_operator", "audit_pipeline", "sluicegate_consumer")
DOTTED = re.compile(r"(?<![\w./$-])([a-z_]+(?:\.[A-Za-z_]\w*)+)(?![\w(/-]|\.\w)")
"""A dotted name as a sentence may have it; calls, paths and parts of longer names are others."""
FILE_ENDINGS = ("css", "js", "json", "md", "py", "yaml")
ALSO_KEYS = {
    "api",
    "cluster",
    "config",
    "connection",
    "controller",
    "coordination",
    "group",
    "groups",
    "log",
    "metadata",
    "offsets",
    "resources",
    "server",
    "spec",
    "status",
    "telemetry",
    "topics",
}
"""First words of modules that are also first words of configuration keys and of fields of resources."""


def texts(path: Path) -> Iterator[str]:
    source = path.read_text(encoding="utf-8")
    yield from (t.string for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type == tokenize.COMMENT)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def names_in(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[-1])
    return names


def exists(base: Path, parts: list[str]) -> bool:
    """Whether the parts lead from `base` to a folder, a module, or a name in one."""
    for index, part in enumerate(parts):
        if (base / part).is_dir():
            base /= part
            continue
        module = base / f"{part}.py"
        if module.is_file():
            return set(parts[index + 1 :]) <= names_in(module)
        return (base / "__init__.py").is_file() and part in names_in(base / "__init__.py")
    return True


def stale(program: Path, path: Path) -> Iterator[str]:
    bases = [program, *(folder for folder in path.parents if program in folder.parents)]
    for text in texts(path):
        for name in DOTTED.findall(text):
            parts = name.split(".")
            first = [base for base in bases if (base / parts[0]).is_dir() or (base / f"{parts[0]}.py").is_file()]
            if not first or parts[-1] in FILE_ENDINGS or any(exists(base, parts) for base in first):
                continue
            if parts[0] not in ALSO_KEYS or (first[0] / parts[0] / f"{parts[1]}.py").is_file():
                yield f"{path.relative_to(ROOT)}: {name}"


@pytest.mark.parametrize("program", PROGRAMS)
def test_modules_that_docstrings_and_comments_name_exist(program: str) -> None:
    root = ROOT / program
    assert [name for path in sorted(root.rglob("*.py")) for name in stale(root, path)] == []


def test_a_module_that_has_moved_is_found(tmp_path: Path) -> None:
    (tmp_path / "planning").mkdir()
    (tmp_path / "planning" / "rolls.py").write_text("def plan() -> None: ...\n")
    assert exists(tmp_path, ["planning", "rolls", "plan"])
    assert not exists(tmp_path, ["planning", "rolls", "other"])
    assert not exists(tmp_path, ["planning", "fencing"])
