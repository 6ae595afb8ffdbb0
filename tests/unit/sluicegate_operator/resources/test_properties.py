"""A spec's values reach the broker unchanged, and set no other key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.config import parse_properties
from sluicegate_operator.resources.properties import render_properties

TROUBLE = st.text(alphabet="\\=:#! \t\f\n\r\v\x1c\x85\u2028\u20ac\U0001f600uab1,.", max_size=12)
TEXTS = st.text(max_size=40) | TROUBLE


@given(st.dictionaries(TEXTS.filter(bool), TEXTS, max_size=6))
def test_the_broker_reads_what_was_written_and_nothing_else(properties: dict[str, str]) -> None:
    assert parse_properties(render_properties(properties), "x") == properties


@pytest.mark.parametrize("value", ["1\nnode.id=7", "3\rmax.connections=1", "1\\", "1\u2028node.id=7", "1\x0bnode.id=7"])
def test_a_value_cannot_smuggle_another_key_into_the_file(value: str) -> None:
    properties = {"a": value, "process.roles": "broker"}
    assert parse_properties(render_properties(properties), "x") == properties


def test_equal_properties_are_equal_files_and_plain_values_stay_readable() -> None:
    text = "listeners=INTERNAL://h:9091,EXTERNAL://h:9094\nnum.partitions=3\n"
    assert render_properties({"num.partitions": "3", "listeners": "INTERNAL://h:9091,EXTERNAL://h:9094"}) == text
