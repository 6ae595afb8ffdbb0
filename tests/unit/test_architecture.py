"""Names in pages exist: steps of walks and files of the map of architecture.md, modules and links in all pages."""

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (ROOT, ROOT / "broker_runtime", ROOT / "operator" / "sluicegate_operator")
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
PAGES = [path for path in TRACKED if path.endswith(".md") and (ROOT / path).is_file()]
STEPS = sorted(set(re.findall(r"`([\w/]+\.py):(\w+)`", PAGE)))


@cache
def names_in(path: Path) -> set[str]:
    """Names of functions and classes, and assigned names: in the module, its classes, and their instances."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                found.add(name)
    return found


def found_in(relative: str) -> list[Path]:
    return [source / relative for source in SOURCES if (source / relative).is_file()]


@pytest.mark.parametrize(("relative", "name"), STEPS)
def test_every_step_of_a_walk_is_in_the_code(relative: str, name: str) -> None:
    files = found_in(relative)
    assert files, f"there is no {relative}"
    assert any(name in names_in(file) for file in files), f"{relative} has no {name}"


def test_there_are_four_walks_with_steps() -> None:
    assert [int(number) for number in re.findall(r"^## Walk (\d)", PAGE, re.MULTILINE)] == [1, 2, 3, 4]
    assert len(STEPS) > 40


def test_every_file_and_folder_of_the_map_is_there() -> None:
    (page_map,) = re.findall(r"^## Map$.*?^```$(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    folder = ROOT
    for line in page_map.splitlines():
        if named := re.match(r"(\S+)/( |$)", line):
            folder = place = ROOT / named[1]
            assert folder.is_dir(), line
        elif named := re.match(r"  (\w+/|\w+\.py)", line):
            place = folder / named[1]
            assert place.exists(), line
        # The description of a folder names others in it, or beside it.
        for name in re.findall(r"(?<![\w./])((?:\w+/)+(?:\w+\.py)?|\w+/\w+\.py)", line):
            assert any((base / name).exists() for base in (place, folder, ROOT)), f"{name}: {line}"


@pytest.mark.parametrize("page", PAGES)
def test_every_module_and_link_of_a_page_is_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    modules = set(re.findall(r"`([\w./-]*\w+\.py)(?::\w+)?`", text))
    assert {module for module in modules if not any(f"/{path}".endswith(f"/{module}") for path in TRACKED)} == set()
    links = {link for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) if "://" not in link}
    assert {link for link in links if not ((ROOT / page).parent / link).exists()} == set()
