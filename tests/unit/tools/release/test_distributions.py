"""The consumer's distribution has what the consumer imports, and nothing of the broker, the operator or kio."""

import ast
import sys
from pathlib import Path

from tools.pins import read_pyproject, required_name
from tools.release.distributions import CONSUMER_PACKAGES, consumer_modules, copy_consumer

ROOT = Path(__file__).parents[4]


def imported(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_the_consumers_modules_import_only_each_other_and_its_dependencies() -> None:
    project = read_pyproject(ROOT / "packaging" / "consumer")["project"]
    allowed = {*CONSUMER_PACKAGES, *map(required_name, project["dependencies"])}
    outside = {name for file in consumer_modules(ROOT) for name in imported(file)} - sys.stdlib_module_names
    assert outside <= allowed
    assert project["dependencies"] == read_pyproject(ROOT)["project"]["optional-dependencies"]["consumer"]


def test_only_what_the_consumer_reaches_of_the_shared_bytes_is_included() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in consumer_modules(ROOT)}
    assert {"sluicegate_consumer/consumer.py", "kafka_bytes/__init__.py", "kafka_bytes/push/messages.py"} <= names
    assert not [name for name in names if name.startswith("kafka_bytes/messages/")]
    assert {name.partition("/")[0] for name in names} == set(CONSUMER_PACKAGES)


def test_the_tree_that_is_built_has_the_modules_and_what_describes_them(tmp_path: Path) -> None:
    copy_consumer(ROOT, tmp_path / "tree")
    found = {
        path.relative_to(tmp_path / "tree").as_posix() for path in (tmp_path / "tree").rglob("*") if path.is_file()
    }
    modules = {path.relative_to(ROOT).as_posix() for path in consumer_modules(ROOT)}
    assert found == {*modules, "pyproject.toml", "README.md", "LICENSE", "sluicegate_consumer/py.typed"}
