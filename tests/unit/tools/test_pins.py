"""constraints.txt and its reader: each package has the sums of its files, and an environment is all that it needs."""

import re
from importlib import metadata

import pytest

from tools.pins import BUILDERS, PINS, PinsError, builders, needed, normalized, of_extras, parse, read_pyproject

SUM, OTHER = "0" * 64, "f" * 64
TEXT = f"""\
# Written by a program.
Boat==2.1 \\
    --hash=sha256:{SUM} \\
    --hash=sha256:{OTHER}
    # via
    #   shop (pyproject.toml)
    #   harbour-tools
harbour_tools==1.0 ; sys_platform == 'win32' \\
    --hash=sha256:{SUM}
    # via -r -
oar==3.0 \\
    --hash=sha256:{SUM}
    # via boat
quay==4 \\
    --hash=sha256:{SUM}
    # via shop (pyproject.toml)
"""
PROJECT = {
    "name": "shop",
    "dependencies": ["always"],
    "optional-dependencies": {"till": ["coins", "shop[counter]"], "counter": ["wood", "shop[till]"], "yard": ["gate"]},
}


def test_an_environment_has_what_its_requirements_need_and_nothing_else() -> None:
    pins = parse(TEXT)
    assert [pin.name for pin in needed(pins, ["Harbour.Tools>=1"])] == ["Boat", "harbour_tools", "oar"]
    assert [pin.name for pin in needed(pins, ["quay[deep]==4"])] == ["quay"]


def test_a_requirement_names_version_platform_and_sums() -> None:
    pins = parse(TEXT)
    assert pins["boat"].requirement() == f"Boat==2.1 --hash=sha256:{SUM} --hash=sha256:{OTHER}"
    assert pins["harbour-tools"].requirement() == (f"harbour_tools==1.0 ; sys_platform == 'win32' --hash=sha256:{SUM}")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("oar==3.0", "oar>=3.0", "line 11 has no NAME==VERSION"),
        (f"quay==4 \\\n    --hash=sha256:{SUM}\n", "quay==4\n", "quay has no --hash"),
        (f"quay==4 \\\n    --hash=sha256:{SUM}", "quay==4 \\\n    --hash=sha256:12", "quay has a line that is neither"),
        (
            f"quay==4 \\\n    --hash=sha256:{SUM}",
            f"quay==4 \\\n    --hash=md5:{SUM}",
            "quay has a line that is neither",
        ),
        ("quay==4", "OAR==4", "has OAR twice"),
    ],
)
def test_a_file_that_pins_less_is_refused(old: str, new: str, said: str) -> None:
    assert old in TEXT
    with pytest.raises(PinsError, match=re.escape(said)):
        parse(TEXT.replace(old, new))


def test_a_requirement_without_a_pin_is_refused() -> None:
    with pytest.raises(PinsError, match="lacks kayak, raft; renew the file by `make pins`"):
        needed(parse(TEXT), ["raft", "quay", "kayak<2"])


def test_an_extra_that_names_other_extras_includes_theirs() -> None:
    assert of_extras(PROJECT, ("till",)) == ["always", "coins", "wood"]


def test_each_extra_and_each_builder_is_pinned() -> None:
    pins, pyproject = parse(PINS.read_text(encoding="utf-8")), read_pyproject()
    extras = pyproject["project"]["optional-dependencies"]
    found = {extra: needed(pins, of_extras(pyproject["project"], [extra])) for extra in extras}
    assert all(found.values())
    assert {pin.name for pin in needed(pins, builders(pyproject))} >= {"hatchling", *BUILDERS}
    assert {name for pins_of in found.values() for pin in pins_of for name in [normalized(pin.name)]} | {
        normalized(pin.name) for pin in needed(pins, builders(pyproject))
    } == pins.keys()


def test_this_environment_has_the_pinned_versions_and_lacks_nothing_that_its_packages_need() -> None:
    pins, pyproject = parse(PINS.read_text(encoding="utf-8")), read_pyproject()
    of_dev = [*of_extras(pyproject["project"], ["dev"]), *builders(pyproject)]
    expected = {normalized(pin.name): pin.version for pin in needed(pins, of_dev)}
    installed = {normalized(found.name): found for found in metadata.distributions()}
    versions = {name: installed[name].version for name in expected if name in installed}
    assert versions == {name: version for name, version in expected.items() if name in installed}
    requirements = {
        normalized(named[0])
        for name in versions
        for requirement in installed[name].requires or []
        if "extra ==" not in requirement and (named := re.match(r"[\w.-]+", requirement))
    }
    assert len(versions) > 90
    assert requirements & installed.keys() <= expected.keys() | {"setuptools", "pip"}


def test_the_file_names_no_index() -> None:
    text = PINS.read_text(encoding="utf-8")
    assert "://" not in text
    assert not re.search(r"^\s*-", text.replace("    --hash=", ""), re.MULTILINE)
