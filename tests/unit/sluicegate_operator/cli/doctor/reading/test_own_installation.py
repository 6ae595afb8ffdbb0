"""The installation of the tests, as `doctor` reads it."""

import sys
from importlib.metadata import PackageNotFoundError, version

import pytest

from sluicegate_operator.cli.doctor.reading import own_installation as reading


def test_the_installation_of_the_tests_is_whole() -> None:
    found = reading.own_installation()
    assert found.release == version("sluicegate")
    assert found.python == sys.version_info[:2]
    assert found.python_wanted.startswith(">=3.")
    assert found.missing["operator"] == found.missing["broker"] == ()
    assert not {"dev", "docs", "pins"} & set(found.missing)


def test_without_the_package_only_python_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(reading, "metadata", lacks)
    found = reading.own_installation()
    assert (found.release, found.missing) == (None, {})


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        reading, "requires", lambda _: ["typer; extra == 'broker'", "no-such-package; extra == 'broker'"]
    )
    assert reading.own_installation().missing == {"broker": ("no-such-package",)}
