"""Caches that clients fill: their number of entries is limited, and so are the bytes of an entry."""

import ast
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import broker_runtime
from broker_runtime.config import broker_key
from broker_runtime.remembering import CHARACTERS_MAX, remembered

PACKAGE = Path(broker_runtime.__file__).parent
TEXTS = {"str", "bytes", "tuple", "frozenset", "Hashable", "object"}
FEW_VALUES = {
    "unused_keys": "three kinds of resources",
    "message_type": "a direction",
    "_uuid": "16 bytes",
    "_topic_id": "16 bytes",
}
"""Functions that get texts or bytes which are few or short."""


def test_results_for_short_arguments_are_cached() -> None:
    calls: list[tuple[object, ...]] = []

    @remembered(2)
    def noted(*arguments: object) -> int:
        calls.append(arguments)
        return len(calls)

    assert [noted("a", 1), noted("a", 1), noted("b", 1), noted(("a", ("b",)))] == [1, 1, 2, 3]
    assert noted("a", 1) == 4, "only the last two results are kept"


def test_results_for_long_arguments_are_not() -> None:
    calls: list[object] = []

    @remembered(10)
    def noted(*arguments: object) -> None:
        calls.append(arguments)

    for text in ("x" * CHARACTERS_MAX, "x" * (CHARACTERS_MAX + 1)):
        for _ in range(2):
            noted(text)
    for _ in range(2):
        noted((("name", "x" * CHARACTERS_MAX),))
        noted(tuple(range(CHARACTERS_MAX + 1)))
        noted(b"x" * (CHARACTERS_MAX + 1))
    assert len(calls) == 1 + 2 + 6


def test_every_cache_of_texts_is_of_this_kind() -> None:
    """A cache of `functools` is for arguments that clients do not choose, or that have a length."""
    found = {f"{path}: {name}" for path, name in cached_functions()}
    assert found == set()


def cached_functions() -> Iterator[tuple[Path, str]]:
    """Yield the functions with texts as arguments that a cache of functools caches."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name == "remembering.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Call) and _is_cache(node.func):
                yield path.relative_to(PACKAGE), ast.unparse(node)
            if not isinstance(node, ast.FunctionDef) or not any(map(_is_cache, node.decorator_list)):
                continue
            of = {
                word.id
                for argument in node.args.args
                if argument.annotation is not None
                for word in ast.walk(argument.annotation)
                if isinstance(word, ast.Name)
            }
            if of & TEXTS and node.name not in FEW_VALUES:
                yield path.relative_to(PACKAGE), node.name


def _is_cache(node: ast.expr) -> bool:
    name = node.func if isinstance(node, ast.Call) else node
    return (name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")) in ("cache", "lru_cache")


def test_unknown_keys_with_long_names_leave_no_memory() -> None:
    assert broker_key("first") is None
    tracemalloc.start()
    try:
        for number in range(300):
            for prefix in ("sluicegate.tag.", "observer.", ""):
                assert broker_key(f"{prefix}{number} {'ö' * 20_000}😀") is None
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000
