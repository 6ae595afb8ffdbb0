"""Public classes say what they own: what of it is durable, units, errors."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3] / "broker_runtime"


def test_every_public_class_says_what_it_is() -> None:
    silent = {
        f"{path.relative_to(ROOT)}:{node.name}"
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and ast.get_docstring(node) is None
    }
    assert sorted(silent) == []
