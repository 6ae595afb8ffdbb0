"""Functions within functions do not name the types of decisions: Python evaluates these annotations at each call.

`Deciding[R, T]` alone takes tens of microseconds, as long as the decision of a heartbeat.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2] / "broker_runtime"
EXPENSIVE = {"Deciding", "Decided", "Decision"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def annotations(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    if function.returns is not None:
        yield function.returns
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if argument.annotation is not None:
            yield argument.annotation


def expensive(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of functions within functions that have such an annotation."""
    for outer in ast.walk(tree):
        for inner in ast.walk(outer) if isinstance(outer, FUNCTIONS) else ():
            if inner is not outer and isinstance(inner, FUNCTIONS):
                parts = [node for each in annotations(inner) for node in ast.walk(each)]
                subscripted = [node.value for node in parts if isinstance(node, ast.Subscript)]
                if any(isinstance(name, ast.Name) and name.id in EXPENSIVE for name in subscripted):
                    yield inner.lineno


def test_no_nested_function_has_an_expensive_annotation() -> None:
    sources = {path: ast.parse(path.read_text(encoding="utf-8")) for path in ROOT.rglob("*.py")}
    found = [f"{path.relative_to(ROOT.parent)}:{line}" for path, tree in sources.items() for line in expensive(tree)]
    assert found == []


def test_such_a_function_is_found() -> None:
    source = "def submit():\n    def decide(state) -> Deciding[R, T]:\n        return (), None\n    return decide\n"
    assert list(expensive(ast.parse(source))) == [2]
