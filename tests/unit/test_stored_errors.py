"""Nothing in the broker makes a reference cycle of an error and the request that it refuses.

`errors.detached` says how. A traceback refers to frames, and frames to all local variables. Python frees such a cycle
when its garbage collector finds it. That takes long for a broker that lives for months: the collector skips what it has
frozen.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = {
    str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "broker_runtime").rglob("*.py"))
}
STORING = {"append", "add", "appendleft", "insert", "setdefault", "put", "put_nowait", "set_result", "set_exception"}
"""Methods that keep their arguments."""
STORED_WITH = 2
"""Number of arguments of such a method; other methods of the same name have more."""
KEEPS_ITS_TRACEBACK = {
    # The process ends with it.
    ("broker_runtime/controller/service.py", "self.failed.set_exception(error)"),
    # It comes from a thread, whose frames refer to no future.
    ("broker_runtime/storage/disk/disk.py", "ended.set_exception(error)"),
}
"""Programming errors, which are logged with the place where they happened."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def parents_in(tree: ast.AST) -> Mapping[ast.AST, ast.AST]:
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def raised_again(tree: ast.AST) -> Iterator[ast.AST]:
    """Errors in variables and attributes that are raised: the frame that raises them refers to them."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Raise):
            continue
        match node.exc:
            case ast.Name(id=name) | ast.Attribute(attr=name) if name[0].islower() or name[0] == "_":
                yield node
            case ast.Subscript():
                yield node


def stored(tree: ast.AST) -> Iterator[ast.AST]:
    """Caught errors that are stored or returned unchanged."""
    parents = parents_in(tree)
    for handler in ast.walk(tree):
        if not isinstance(handler, ast.ExceptHandler) or handler.name is None:
            continue
        for node in ast.walk(handler):
            if isinstance(node, ast.Name) and node.id == handler.name and _is_stored(node, parents):
                yield node


def _is_stored(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    parent = parents[node]
    while isinstance(parent, ast.IfExp | ast.Tuple | ast.List | ast.Dict | ast.NamedExpr | ast.BoolOp):
        parent = parents[parent]
    match parent:
        case ast.Assign() | ast.AnnAssign() | ast.Return() | ast.Yield():
            return True
        case ast.Call(func=ast.Attribute(attr=name), args=args):
            return name in STORING and len(args) <= STORED_WITH
    return False


def failed_futures(tree: ast.AST) -> Iterator[ast.AST]:
    """Errors in variables that are passed to futures unchanged."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="set_exception"), args=[ast.Name() | ast.Attribute()]):
                yield node


def of_themselves(tree: ast.AST) -> Iterator[Function]:
    """Nested functions that refer to themselves, directly or through each other: function, cell, function."""
    for function in ast.walk(tree):
        if isinstance(function, Function):
            nested = {each.name: each for each in _nested(function)}
            refers = {name: _names(each) & nested.keys() for name, each in nested.items()}
            yield from (each for name, each in nested.items() if name in _reached(name, refers))


def _nested(node: ast.AST) -> Iterator[Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield child
        elif not isinstance(child, ast.ClassDef | ast.Lambda):
            yield from _nested(child)


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}


def _reached(name: str, refers: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    left = list(refers[name])
    while left:
        each = left.pop()
        if each not in reached:
            reached.add(each)
            left += refers[each]
    return reached


FORBIDDEN = {
    "raise a new error, and not one that is stored": raised_again,
    "store and return errors by `errors.detached`": stored,
    "give `errors.detached` to futures, or a new error": failed_futures,
    "use functools.partial or a class where a step schedules itself": of_themselves,
}


@pytest.mark.parametrize("rule", FORBIDDEN)
def test_no_module_of_the_broker_makes_a_circle(rule: str) -> None:
    found = [
        f"{path}:{node.lineno}: {ast.unparse(node).splitlines()[0]}"  # type: ignore[attr-defined]
        for path, tree in MODULES.items()
        for node in FORBIDDEN[rule](tree)
        if (path, ast.unparse(node)) not in KEEPS_ITS_TRACEBACK
    ]
    assert found == [], rule


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (raised_again, "raise refused"),
        (raised_again, "raise self.error"),
        (stored, "try:\n  f()\nexcept E as error:\n  self.error = error"),
        (stored, "try:\n  f()\nexcept E as error:\n  failed = error if x else None"),
        (stored, "try:\n  f()\nexcept E as error:\n  owed.add(error)"),
        (failed_futures, "answer.set_exception(waiting.refused)"),
        (of_themselves, "def f():\n  def step():\n    later(step)"),
        (of_themselves, "def f():\n  def one():\n    later(other)\n  def other():\n    one()"),
    ],
)
def test_each_rule_finds_what_it_is_for(rule: object, text: str) -> None:
    assert list(rule(ast.parse(text))) != []  # type: ignore[operator]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (raised_again, "raise KafkaError(code)"),
        (raised_again, "raise NotImplementedError"),
        (stored, "try:\n  f()\nexcept E as error:\n  return detached(error)"),
        (stored, "try:\n  f()\nexcept E as error:\n  answers.append(packed(error))"),
        (failed_futures, "answer.set_exception(detached(error))"),
        (of_themselves, "def f():\n  def step():\n    g()\n  later(step)"),
    ],
)
def test_no_rule_finds_what_makes_no_circle(rule: object, text: str) -> None:
    assert list(rule(ast.parse(text))) == []  # type: ignore[operator]
