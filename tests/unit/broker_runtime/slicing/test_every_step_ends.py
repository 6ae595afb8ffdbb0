"""Every loop of steps ends a step each time: no request finds a way round a `yield`.

A client chooses how many of its items are refused, so an item that skips the `yield` makes one step of all of them.
"""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
PAGED = {"each", "chosen", "counted", "gathered", "listed", "distinct", "pages", "in_order"}
"""Functions that end a step after some items of an iterable: they do not see those that the iterable leaves out."""
OVER_FIELDS = ("broker_runtime/wire/encoding/decode.py",)
"""Modules whose loops skip fields of one message, of which there are few."""
MODULES = {
    str(path.relative_to(ROOT)): ast.parse(path.read_text("utf-8")) for path in ROOT.glob("broker_runtime/**/*.py")
}


def without_functions(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all nodes within it, except those of functions that it defines."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from without_functions(child)


def ends_a_step(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Yield | ast.YieldFrom) for each in without_functions(node))


def is_counted(node: ast.stmt) -> bool:
    """Whether a statement ends a step each time, or each so many times."""
    if isinstance(node, ast.If):
        return ends_a_step(node) and isinstance(node.test, ast.Compare) and isinstance(node.test.left, ast.BinOp)
    return ends_a_step(node) and not isinstance(node, ast.For | ast.While)


def skipping(body: Sequence[ast.stmt]) -> Iterator[int]:
    """Lines of `continue` that are reached without the end of a step."""
    for statement in body:
        if isinstance(statement, ast.Continue):
            yield statement.lineno
        elif isinstance(statement, ast.If):
            yield from skipping(statement.body)
            yield from skipping(statement.orelse)
        elif isinstance(statement, ast.Try | ast.With):
            yield from skipping(statement.body)
            for handler in getattr(statement, "handlers", ()):
                yield from skipping(handler.body)
        if is_counted(statement):
            return


def loops_of_steps() -> Iterator[tuple[str, ast.For | ast.While]]:
    for path, module in MODULES.items():
        for function in ast.walk(module):
            returns = getattr(function, "returns", None)
            if returns is None or not ast.unparse(returns).startswith("Steps["):
                continue
            for node in without_functions_of(function):
                if isinstance(node, ast.For | ast.While) and any(map(ends_a_step, node.body)):
                    yield path, node


def without_functions_of(function: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(function):
        yield from without_functions(child)


def test_no_loop_of_steps_continues_without_ending_one() -> None:
    loops = list(loops_of_steps())
    assert len(loops) > 100
    found = [(path, line) for path, loop in loops for line in skipping(loop.body)]
    assert [f"{path}:{line}" for path, line in found if path not in OVER_FIELDS] == []


def test_what_is_paged_leaves_out_no_items() -> None:
    calls = [
        (path, call)
        for path, module in MODULES.items()
        for call in ast.walk(module)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in PAGED
    ]
    assert len(calls) > 100
    assert [f"{path}:{call.lineno}" for path, call in calls if any(map(leaves_out, call.args))] == []


def leaves_out(argument: ast.expr) -> bool:
    """Whether an iterable has a condition. One that only tells None from objects is quick."""
    if isinstance(argument, ast.Call):
        return isinstance(argument.func, ast.Name) and argument.func.id == "filter"
    if not isinstance(argument, ast.GeneratorExp):
        return False
    return any(not ast.unparse(test).endswith("is not None") for part in argument.generators for test in part.ifs)


@pytest.mark.parametrize(
    ("loop", "lines"),
    [
        ("for a in b:\n if a:\n  continue\n yield", [3]),
        ("for a in b:\n if a:\n  yield\n  continue\n yield", []),
        ("for a in b:\n if a % 8 == 0:\n  yield\n if a:\n  continue", []),
        ("for a in b:\n try:\n  if a:\n   continue\n except E:\n  pass\n yield", [4]),
    ],
)
def test_what_is_found(loop: str, lines: list[int]) -> None:
    found = ast.parse(loop).body[0]
    assert isinstance(found, ast.For)
    assert list(skipping(found.body)) == lines
