"""java.util.Properties: Kafka's own files have the same meaning here, and a written file reads back unchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.config import parse_properties
from broker_runtime.errors import ConfigError
from kafka_bytes.properties import render_properties

TROUBLE = st.text(alphabet="\\=:#! \t\f\n\r\v\x1c\x85\u2028\u20ac\U0001f600uab1,.", max_size=12)
KEYS = st.text(min_size=1, max_size=12) | TROUBLE.filter(bool)
VALUES = st.text(max_size=40) | TROUBLE


@given(st.dictionaries(KEYS, VALUES, max_size=6))
def test_rendered_properties_read_back_unchanged(values: dict[str, str]) -> None:
    text = render_properties(values)
    assert parse_properties(text, "x") == values
    assert text.isascii()
    assert text.count("\n") == len(values)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a=1\\\n  2\n", {"a": "12"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\\\\\n  b=2", {"a": "1\\b=2"}),
        ("a = 1 \nb:2\nc 3\n", {"a": "1", "b": "2", "c": "3"}),
        ("a=x\\ \n", {"a": "x "}),
        ("a\\ b\\=c=1", {"a b=c": "1"}),
        ("a=\\t\\n\\r\\f\\u20ac\\q", {"a": "\t\n\r\f\u20acq"}),
        ("a=\\ud83d\\ude00", {"a": "\U0001f600"}),
        ("a=1\rb=2\r\nc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\x0bb=2\u2028c=3", {"a": "1\x0bb=2\u2028c=3"}),
        ("# a=1\\\n! b=2\nc=3\\\n# d", {"c": "3# d"}),
        ("a=\nb==2\nc=:\n", {"a": "", "b": "=2", "c": ":"}),
        ("C\\:\\\\logs=x", {"C:\\logs": "x"}),
    ],
)
def test_lines_mean_what_they_mean_to_java(text: str, meant: dict[str, str]) -> None:
    assert parse_properties(text, "x") == meant


def test_half_an_escape_is_named() -> None:
    with pytest.raises(ConfigError, match=r"server\.properties, line 2: \\u must be followed by four"):
        parse_properties("a=1\nb=\\u20a", "server.properties")


@pytest.mark.parametrize("text", ["\\ud83d", "\\ud83dx", "\\ude00\\ud83d"])
def test_a_lone_surrogate_is_rejected_because_it_cannot_be_sent(text: str) -> None:
    with pytest.raises(ConfigError, match="line 1: an escaped surrogate"):
        parse_properties(f"a={text}", "x")
