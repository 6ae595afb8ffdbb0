"""Settings as people write them."""

import pytest

from audit_pipeline.errors import BadUseError
from audit_pipeline.results.settings import StormLimits, read_storms


def test_what_storms_do_not_name_is_as_it_is_without_them() -> None:
    assert read_storms("{}") == StormLimits()
    assert read_storms('{"held": 5}') == StormLimits(held=5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"rate": 5}', "storms: rate is not known; there are connections, held"),
        ('{"held": 0}', "held has to be a whole number of at least 1"),
        ('{"connections": true}', "connections has to be a whole number"),
        ("[]", "storms has to be an object"),
    ],
)
def test_storms_that_make_no_sense_are_named(text: str, says: str) -> None:
    with pytest.raises(BadUseError, match=says):
        read_storms(text)
