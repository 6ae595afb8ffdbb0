from fnmatch import fnmatch
from pathlib import Path

from e2e.nodes.site.levels import FULL_ONLY, IMAGES, NODES, ignored, place
from tools.image.definition import IMAGES as IMAGES_THAT_ARE_MADE

SCENARIOS = sorted(path.name for path in (Path(__file__).parents[3] / "e2e/nodes").glob("test_*.py"))


def collected(level: str) -> set[str]:
    return {name for name in SCENARIOS if not any(fnmatch(name, pattern) for pattern in ignored(level))}


def test_without_a_level_no_scenario_is_collected() -> None:
    assert collected("") == set()


def test_the_short_level_has_all_but_what_takes_several_nodes_or_minutes() -> None:
    assert collected("full") == set(SCENARIOS)
    assert collected("short") == set(SCENARIOS) - set(FULL_ONLY)


def test_a_fresh_installation_comes_first_and_an_uninstall_last() -> None:
    modules = ["test_uninstall", "test_audit", "test_upgrade", "test_rolls", "test_nodes", "test_install"]
    assert sorted(modules, key=place) == [
        "test_install",
        "test_rolls",
        "test_audit",
        "test_nodes",
        "test_upgrade",
        "test_uninstall",
    ]


def test_every_level_has_nodes_and_images_that_are_made() -> None:
    assert NODES.keys() == IMAGES.keys()
    assert {name for names in IMAGES.values() for name in names} <= IMAGES_THAT_ARE_MADE.keys()
