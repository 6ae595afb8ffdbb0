"""Each fuzz target accepts its seeds and kept inputs, and some changes of them: `make fuzz` searches for more."""

import random
from itertools import islice

import pytest

from tests.fuzz.mutations import mutated
from tests.fuzz.table import NAMES, target
from tests.fuzz.target import inputs_of

SEED = 20_261_129
CHANGED = 300


@pytest.mark.parametrize("name", NAMES)
def test_a_reader_refuses_any_bytes_only_as_documented(name: str) -> None:
    found = target(name)
    inputs = inputs_of(found)
    assert inputs
    assert max(map(len, inputs)) <= found.bytes_max
    with found.opened() as run:
        for data in (b"", *inputs, *islice(mutated(inputs, random.Random(SEED), found.bytes_max), CHANGED)):
            run(data)
