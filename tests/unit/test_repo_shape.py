"""The repository checks its own shape: sizes, the `operator/` source root, generated pages."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools import dashboards
from tools.chart import CRDS, chart_crds
from tools.reference import PAGES, REFERENCE

ROOT = Path(__file__).resolve().parents[2]
MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
PUBLIC_METHODS_MAX = 12
CONSTRUCTOR_ARGUMENTS_MAX = 7
VAGUE_NAMES = {"utils", "helpers", "common", "misc"}


def tracked(pattern: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for line in listed.stdout.splitlines() if (path := ROOT / line).is_file()]


PYTHON = tracked("*.py")
TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in PYTHON}
PRODUCT = ("broker_runtime/", "operator/sluicegate_operator/", "sluicegate_consumer/")
EVERYWHERE = (*PRODUCT, "tests/", "e2e/", "benchmarks/", "demo/", "tools/")
MODELS = "operator/sluicegate_operator/api/"
"""A model's docstring would be what `kubectl explain` says of each field that has it."""
NOT_SPLIT_YET = ("broker_runtime/cluster/follower.py",)
"""Where a class has banners still."""
DEEDS_OF_SPARK = re.compile(
    "SparkSession|sparkSession|getActiveSession|getOrCreate|collect|toPandas|toArrow|toLocalIterator|show|take|head"
    "|isEmpty|foreach|foreachPartition|cache|persist|checkpoint|localCheckpoint|rdd|write|writeTo|writeStream"
    "|udf|pandas_udf|arrow_udf|udtf|mapInPandas|mapInArrow|applyInPandas|applyInArrow|dropDuplicates|drop_duplicates"
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def test_the_operator_folder_is_a_source_root_and_never_a_package() -> None:
    assert not list((ROOT / "operator").glob("*.py"))
    inside = {path.name for path in (ROOT / "operator").rglob("*.py")}
    assert not {name for name in inside if name.startswith(("test_", "conftest"))}


def long_modules(path: str, text: str) -> Iterator[str]:
    lines = len(text.splitlines())
    if lines > MODULE_LINES_MAX:
        yield f"{path} has {lines} lines"


def long_functions(path: str, text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, FUNCTIONS):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{path}: {node.name} has {lines} lines"


def large_classes(path: str, text: str) -> Iterator[str]:
    """Properties count; a class has what it says itself, not what it inherits."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            public = {part.name for part in node.body if isinstance(part, FUNCTIONS) and not part.name.startswith("_")}
            if len(public) > PUBLIC_METHODS_MAX:
                yield f"{path}: {node.name} has {len(public)} public methods"


def silent_classes(path: str, text: str) -> Iterator[str]:
    if path.startswith(MODELS):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and ast.get_docstring(node) is None:
            yield f"{path}: {node.name} does not say what it owns"


def large_constructors(path: str, text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, FUNCTIONS) and node.name == "__init__":
            arguments = len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs) - 1
            if arguments > CONSTRUCTOR_ARGUMENTS_MAX:
                yield f"{path}:{node.lineno}: a constructor has {arguments} arguments"


def banners(path: str, text: str) -> Iterator[str]:
    """Comments that are headings between the methods of a class: they mark a class to split."""
    lines = [] if path.startswith(NOT_SPLIT_YET) else text.splitlines()
    for number, (before, line, after) in enumerate(zip(lines, lines[1:], lines[2:], strict=False), 2):
        if line.startswith("    #") and not line.endswith(".") and not before and not after:
            yield f"{path}:{number}: {line.strip()}"


def deeds_of_spark(path: str, text: str) -> Iterator[str]:
    """What runs a job, keeps rows or asks for a session, and functions that run in Python: results are plans only."""
    for node in ast.walk(ast.parse(text)):
        names = [node.attr] if isinstance(node, ast.Attribute) else []
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyspark"):
            names = [alias.name for alias in node.names]
        yield from (f"{path}: {name}" for name in names if DEEDS_OF_SPARK.fullmatch(name))


Rule = Callable[[str, str], Iterator[str]]
RULES: tuple[tuple[Rule, tuple[str, ...], str], ...] = (
    (long_modules, EVERYWHERE, "x = 1\n" * (MODULE_LINES_MAX + 1)),
    (long_functions, EVERYWHERE, "class A:\n  async def f(self):\n" + "    x = 1\n" * FUNCTION_LINES_MAX),
    (large_classes, PRODUCT, "class A:\n" + "".join(f"  def m{n}(self): ...\n" for n in range(13))),
    (silent_classes, PRODUCT, "class A:\n  x = 1\n"),
    (large_constructors, PRODUCT, "class A:\n  def __init__(self, a, b, c, d, e, f, *, g, h): ...\n"),
    (banners, PRODUCT, "class A:\n    x = 1\n\n    # Life\n\n    def f(self): ...\n"),
    (deeds_of_spark, ("audit_pipeline/results/",), "def f(frame):\n    return frame.groupBy('a').count().collect()\n"),
)
"""Each with where it holds, and with a text that it must find fault with."""


@pytest.mark.parametrize(("rule", "where", "bad"), RULES, ids=[rule.__name__ for rule, _, _ in RULES])
def test_the_repository_keeps_to_the_rule(rule: Rule, where: tuple[str, ...], bad: str) -> None:
    found = {path: list(rule(path, text)) for path, text in TEXTS.items() if path.startswith(where)}
    assert [fault for faults in found.values() for fault in faults] == []
    assert {path.split("/")[0] for path in found} >= {folder.split("/")[0] for folder in where}, "it looks everywhere"
    assert list(rule("bad.py", bad))


def test_what_says_that_it_is_pure_is_held_to_it() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (held,) = (contract["source_modules"] for contract in contracts if "read no clock" in contract["name"])
    pure = {
        path.removeprefix("operator/").removesuffix(".py").replace("/", ".")
        for path, text in TEXTS.items()
        if path.startswith(PRODUCT)
        and re.search(r"(^|[.;:] )[Pp]ure[.;:,]", ast.get_docstring(ast.parse(text)) or "", re.M)
    }
    assert "broker_runtime.network.machine" in pure
    assert {module for module in pure if not f"{module}.".startswith(tuple(f"{name}." for name in held))} == set()


def test_modules_are_named_for_what_they_own() -> None:
    assert not [path for path in PYTHON if path.stem in VAGUE_NAMES]


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_have_not_drifted(name: str) -> None:
    assert (REFERENCE / name).read_text(encoding="utf-8") == PAGES[name](), "run `make crds` and commit the result"


def test_the_crds_of_the_chart_have_not_drifted() -> None:
    found = {file.name: file.read_text(encoding="utf-8") for file in CRDS.iterdir()}
    assert found == chart_crds(), "run `make crds` and commit the result"


@pytest.mark.parametrize("name", dashboards.FILES)
def test_generated_dashboards_have_not_drifted(name: str) -> None:
    written = (dashboards.FOLDER / name).read_text(encoding="utf-8")
    assert written == dashboards.render(dashboards.FILES[name]), "run `make crds` and commit the result"
