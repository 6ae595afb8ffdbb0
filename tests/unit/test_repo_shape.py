"""The repository checks its own shape: sizes, the `operator/` source root, generated pages."""

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

from tools.chart import CRDS, chart_crds
from tools.dashboards import rendering as dashboards
from tools.reference import PAGES, REFERENCE

ROOT = Path(__file__).resolve().parents[2]
MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
PUBLIC_METHODS_MAX = 12
METHODS_MAX = 20
CONSTRUCTOR_ARGUMENTS_MAX = 7
VAGUE_NAMES = {"utils", "helpers", "common", "misc"}


def tracked(pattern: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for line in listed.stdout.splitlines() if (path := ROOT / line).is_file()]


PYTHON = tracked("*.py")
TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in PYTHON}
PRODUCT = (
    "broker_runtime/",
    "operator/sluicegate_operator/",
    "sluicegate_consumer/",
    "connection_limits/",
    "kafka_bytes/",
)
EVERYWHERE = (*PRODUCT, "tests/", "e2e/", "benchmarks/", "demo/", "tools/")
MODELS = "operator/sluicegate_operator/api/"
"""A model's docstring would be the text of `kubectl explain` for each field that has it."""
NOT_SPLIT_YET = ("broker_runtime/cluster/follower.py",)
"""Modules with a class that still has banners."""
DEEDS_OF_SPARK = re.compile(
    "SparkSession|sparkSession|getActiveSession|getOrCreate|collect|toPandas|toArrow|toLocalIterator|show|take|head"
    "|isEmpty|foreach|foreachPartition|cache|persist|checkpoint|localCheckpoint|rdd|write|writeTo|writeStream"
    "|udf|pandas_udf|arrow_udf|udtf|mapInPandas|mapInArrow|applyInPandas|applyInArrow|dropDuplicates|drop_duplicates"
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
IMPURE = {"asyncio", "kubernetes", "random", "socket", "time", "uvloop"}
"""What a pure module imports nothing of."""
FOLDER_FILES_MAX = 24


def test_the_operator_folder_is_a_source_root_and_never_a_package() -> None:
    assert not list((ROOT / "operator").glob("*.py"))
    inside = {path.name for path in (ROOT / "operator").rglob("*.py")}
    assert not {name for name in inside if name.startswith(("test_", "conftest"))}


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file, parsed once for all rules."""

    path: str
    text: str
    nodes: tuple[ast.AST, ...]
    """All nodes of its syntax tree; the first is the module."""
    classes: tuple[ast.ClassDef, ...]
    functions: tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]

    @classmethod
    def of(cls, path: str, text: str) -> Self:
        nodes = tuple(ast.walk(ast.parse(text)))
        classes = tuple(node for node in nodes if isinstance(node, ast.ClassDef))
        return cls(path, text, nodes, classes, tuple(node for node in nodes if isinstance(node, FUNCTIONS)))


def long_modules(source: Source) -> Iterator[str]:
    lines = len(source.text.splitlines())
    if lines > MODULE_LINES_MAX:
        yield f"{source.path} has {lines} lines"


def long_functions(source: Source) -> Iterator[str]:
    for node in source.functions:
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > FUNCTION_LINES_MAX:
            yield f"{source.path}: {node.name} has {lines} lines"


def large_classes(source: Source) -> Iterator[str]:
    """Classes with too many methods, or too many public ones, including properties, without inherited ones."""
    for node in source.classes:
        methods = {part.name for part in node.body if isinstance(part, FUNCTIONS)}
        public = {name for name in methods if not name.startswith("_")}
        if len(public) > PUBLIC_METHODS_MAX:
            yield f"{source.path}: {node.name} has {len(public)} public methods"
        if len(methods) > METHODS_MAX:
            yield f"{source.path}: {node.name} has {len(methods)} methods"


def silent_classes(source: Source) -> Iterator[str]:
    if source.path.startswith(MODELS):
        return
    for node in source.classes:
        if not node.name.startswith("_") and ast.get_docstring(node) is None:
            yield f"{source.path}: {node.name} does not say what it owns"


def large_constructors(source: Source) -> Iterator[str]:
    for node in source.functions:
        if node.name == "__init__":
            arguments = len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs) - 1
            if arguments > CONSTRUCTOR_ARGUMENTS_MAX:
                yield f"{source.path}:{node.lineno}: a constructor has {arguments} arguments"


def banners(source: Source) -> Iterator[str]:
    """Comments that are headings between the methods of a class: they mark a class to split."""
    lines = [] if source.path.startswith(NOT_SPLIT_YET) else source.text.splitlines()
    for number, (before, line, after) in enumerate(zip(lines, lines[1:], lines[2:], strict=False), 2):
        if line.startswith("    #") and not line.endswith(".") and not before and not after:
            yield f"{source.path}:{number}: {line.strip()}"


def deeds_of_spark(source: Source) -> Iterator[str]:
    """Calls that run a job, keep rows or ask for a session, and Python functions for rows: results are plans only."""
    for node in source.nodes:
        names = [node.attr] if isinstance(node, ast.Attribute) else []
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyspark"):
            names = [alias.name for alias in node.names]
        yield from (f"{source.path}: {name}" for name in names if DEEDS_OF_SPARK.fullmatch(name))


def impure_promises(source: Source) -> Iterator[str]:
    """Modules that claim to be pure, and import what reads a clock, draws random numbers or does I/O."""
    tree = source.nodes[0]
    assert isinstance(tree, ast.Module)
    if not re.search(r"(^|[.;:] )[Pp]ure[.;:,]", ast.get_docstring(tree) or "", re.M):
        return
    for node in source.nodes:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            if name.split(".")[0] in IMPURE:
                yield f"{source.path} says that it is pure, and imports {name}"


Rule = Callable[[Source], Iterator[str]]
RULES: tuple[tuple[Rule, tuple[str, ...], str], ...] = (
    (long_modules, EVERYWHERE, "x = 1\n" * (MODULE_LINES_MAX + 1)),
    (long_functions, EVERYWHERE, "class A:\n  async def f(self):\n" + "    x = 1\n" * FUNCTION_LINES_MAX),
    (large_classes, PRODUCT, "class A:\n" + "".join(f"  def m{n}(self): ...\n" for n in range(13))),
    (silent_classes, PRODUCT, "class A:\n  x = 1\n"),
    (large_constructors, PRODUCT, "class A:\n  def __init__(self, a, b, c, d, e, f, *, g, h): ...\n"),
    (banners, PRODUCT, "class A:\n    x = 1\n\n    # Life\n\n    def f(self): ...\n"),
    (deeds_of_spark, ("audit_pipeline/results/",), "def f(frame):\n    return frame.groupBy('a').count().collect()\n"),
    (impure_promises, PRODUCT, '"""Pure."""\n\nfrom time import monotonic\n'),
)
"""Each rule with its folders, and with a text in which it must find a fault."""


def test_the_repository_keeps_to_its_rules() -> None:
    """Each file is parsed once."""
    found: list[str] = []
    seen: dict[str, set[str]] = {rule.__name__: set() for rule, _, _ in RULES}
    for path, text in TEXTS.items():
        rules = [rule for rule, where, _ in RULES if path.startswith(where)]
        source = Source.of(path, text) if rules else None
        for rule in rules:
            assert source is not None
            found += rule(source)
            seen[rule.__name__].add(path.split("/")[0])
    assert found == []
    for rule, where, _ in RULES:
        assert seen[rule.__name__] >= {folder.split("/")[0] for folder in where}, "it looks everywhere"


@pytest.mark.parametrize(
    ("rule", "bad"), [(rule, bad) for rule, _, bad in RULES], ids=[rule.__name__ for rule, _, _ in RULES]
)
def test_a_rule_finds_a_fault(rule: Rule, bad: str) -> None:
    assert list(rule(Source.of("bad.py", bad)))


@pytest.mark.parametrize("package", [*PRODUCT, "audit_pipeline/"])
def test_a_package_has_one_class_of_a_name(package: str) -> None:
    sources = (Source.of(path, text) for path, text in TEXTS.items() if path.startswith(package))
    names = Counter(node.name for source in sources for node in source.classes if not node.name.startswith("_"))
    assert [name for name, count in names.items() if count > 1] == []


def test_a_folder_has_few_files() -> None:
    files = Counter(str(path.parent.relative_to(ROOT)) for path in PYTHON)
    assert {folder: count for folder, count in files.items() if count > FOLDER_FILES_MAX} == {}


def test_modules_are_named_for_what_they_own() -> None:
    assert not [path for path in PYTHON if path.stem in VAGUE_NAMES]


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_have_not_drifted(name: str) -> None:
    assert (REFERENCE / name).read_text(encoding="utf-8") == PAGES[name](), "run `make crds` and commit the result"


def test_every_page_of_docs_is_in_the_navigation_of_the_site() -> None:
    """mkdocs.yml names decisions/ as a folder, and every other page."""
    named = re.findall(r": ([\w/-]+[.]md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(named) == sorted(page for page in pages if not page.startswith("decisions/"))


def test_the_crds_of_the_chart_have_not_drifted() -> None:
    found = {file.name: file.read_text(encoding="utf-8") for file in CRDS.iterdir()}
    assert found == chart_crds(), "run `make crds` and commit the result"


@pytest.mark.parametrize("name", dashboards.FILES)
def test_generated_dashboards_have_not_drifted(name: str) -> None:
    written = (dashboards.FOLDER / name).read_text(encoding="utf-8")
    assert written == dashboards.render(dashboards.FILES[name]), "run `make crds` and commit the result"
