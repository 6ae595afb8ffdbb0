"""Text of clients cannot forge lines of a log."""

import pytest

from kafka_bytes.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("User:alice", "User:alice"),
        ("Ä 漢", "Ä 漢"),
        ("a\nWARNING forged\r", "a\\nWARNING forged\\r"),
        ("\x1b[2J\u2028", "\\x1b[2J\\u2028"),
        ("\ud800", "\\ud800"),
    ],
)
def test_text_that_does_not_print_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert len(printable(text).splitlines()) == 1
