"""Patterns of names."""

import pytest

from audit_pipeline.patterns import fits


@pytest.mark.parametrize(
    ("pattern", "name", "is_fitting"),
    [
        (None, "shop", True),
        (None, None, True),
        ("shop", "shop", True),
        ("shop", "shop-1", False),
        ("shop*", "shop-1", True),
        ("*", "shop", True),
        ("*", None, False),
        ("sh*p", "sh*p", True),
    ],
)
def test_a_pattern_is_a_whole_name_or_a_beginning(pattern: str | None, name: str | None, is_fitting: bool) -> None:
    assert fits(pattern, name) is is_fitting
