"""Subscriptions by regular expressions are RE2's: full names, bounded, and refused with a sentence."""

import pytest

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.topic_regex import compile_topic_regex


@pytest.mark.parametrize(
    ("text", "name", "matches"),
    [
        ("orders", "orders", True),
        ("orders", "orders-eu", False),
        ("orders", "my-orders", False),
        ("orders-.*", "orders-eu", True),
        ("orders|bills", "bills", True),
        ("a|ab", "ab", True),
        ("(?i)ORDERS", "orders", True),
        ("", "orders", False),
        (r"\d+\.\pL", "12.x", True),
        ("^orders$", "orders", True),
        ("[a-z]{0,1000}", "orders", True),
        ("o{1}{", "o{", True),
        ("x" * 4096, "x", False),
    ],
)
def test_an_expression_matches_whole_names(text: str, name: str, matches: bool) -> None:
    assert compile_topic_regex(text).matches(name) is matches


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(", "missing )"),
        ("a(?=b)", "invalid perl operator"),
        (r"(a)\1", "invalid escape sequence"),
        ("*", "no argument for repetition operator"),
        ("a{1001}", "invalid repetition size"),
        ("((a{100}){100}){100}", "repeats too much: 1000000 characters"),
        ("x{0,999}" * 500, "repeats too much"),
        ("(" + r"[)]\)\Q)\E" * 2 + "){400}", "repeats too much: 2400 characters"),
        ("x" * 4097, "4097 characters; at most 4096 are allowed"),
        ("\ud800", "not valid Unicode"),
        (r"(\pL{49}){20}", "too large"),
        (r"\pL\P{Greek}" * 9, "18 classes of Unicode; at most 16 are allowed"),
    ],
)
def test_an_invalid_expression_is_rejected_with_a_message(
    text: str, why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KafkaError, match=why.replace(")", r"\)")) as refused:
        compile_topic_regex(text)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(str(refused.value)) < 400
    assert capfd.readouterr() == ("", "")


def test_what_would_backtrack_does_not() -> None:
    assert not compile_topic_regex("(a*)*(a|aa)*(a+)+$").matches("a" * 249 + "b")
