"""What the API server is sent: JSON to whoever reads JSON, and nothing that YAML does not read."""

import json

from hypothesis import given
from hypothesis import strategies as st

from sluicegate_operator.kube.json_body import json_body


@given(st.dictionaries(st.text(), st.text()))
def test_whatever_is_said_is_read_back(values: dict[str, str]) -> None:
    sent = json_body({"status": values})
    assert json.loads(sent) == {"status": values}
    # YAML takes a raw character where it can be printed, and no escape of half a character.
    assert all(" " <= character <= "~" or character > "\uffff" for character in sent.decode())
    assert b"\\ud8" not in sent.replace(b"\\\\", b"")


def test_a_character_beyond_16_bits_is_sent_as_it_is() -> None:
    assert json_body({"tag": "\x7f\u20ac\U0001f600"}) == b'{"tag": "\\u007f\\u20ac\xf0\x9f\x98\x80"}'
