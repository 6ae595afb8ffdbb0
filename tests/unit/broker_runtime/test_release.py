"""The release that brokers name is that of the package."""

import tomllib
from pathlib import Path

import pytest

from broker_runtime.release import VERSION, version_int

PROJECT = Path(__file__).resolve().parents[3] / "pyproject.toml"


def test_it_is_that_of_the_package() -> None:
    assert tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["version"] == VERSION


@pytest.mark.parametrize(
    ("version", "number"),
    [("0.9.0.0-SNAPSHOT-d12ca4f", 0x00090000), ("0.1.0", 0x00010000), ("1.2", 0x01020000), ("10.0.3", 0x0A000300)],
)
def test_versions_as_numbers(version: str, number: int) -> None:
    assert version_int(version) == number
