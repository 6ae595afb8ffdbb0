"""The bodies sent to the API server: valid JSON, and valid YAML."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate_operator.kube.http.api_server import refusal_of
from sluicegate_operator.kube.http.errors import KubeUnavailableError
from sluicegate_operator.kube.http.json_body import SHOWN_MAX, json_body, json_object


@given(st.dictionaries(st.text(), st.text()))
def test_any_value_reads_back(values: dict[str, str]) -> None:
    sent = json_body({"status": values})
    assert json.loads(sent) == {"status": values}
    # YAML takes a raw printable character, and no escape of half a character.
    assert all(" " <= character <= "~" or character > "\uffff" for character in sent.decode())
    assert b"\\ud8" not in sent.replace(b"\\\\", b"")


def test_a_character_beyond_16_bits_is_sent_as_it_is() -> None:
    assert json_body({"tag": "\x7f\u20ac\U0001f600"}) == b'{"tag": "\\u007f\\u20ac\xf0\x9f\x98\x80"}'


@pytest.mark.parametrize("body", ['"ok"', "null", "[]", "3", "", "<html>sign in</html>", b"\xff", "{"])
def test_an_answer_that_is_not_an_object_is_no_answer_of_the_api_server(body: str | bytes) -> None:
    with pytest.raises(KubeUnavailableError, match="GET /x: the response is not an object of the API server") as raised:
        json_object(body, "GET /x")
    assert raised.value.retriable


def test_an_object_in_an_answer_is_read() -> None:
    assert json_object(b'{"kind": "Status"}', "GET /x") == {"kind": "Status"}


@pytest.mark.parametrize("status", [401, 403, 404, 409, 422, 429, 500, 502, 503, 504])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"message": "denied by a policy"}', "denied by a policy"),
        *(
            (text, text)
            for text in ('"bad gateway"', "null", "[]", "{}", '{"message": null}', '{"message": ["a"]}', "")
        ),
        ("<html>" * SHOWN_MAX, ("<html>" * SHOWN_MAX)[:SHOWN_MAX]),
    ],
)
def test_a_refusal_is_read_whatever_a_proxy_has_answered(status: int, text: str, reason: str) -> None:
    error = refusal_of("PUT", "https://k/lease?a=b", status, text)
    assert str(error) == f"PUT https://k/lease: {status} {reason}"
    assert error.status == status
    assert error.retriable == (status in (409, 429, 500, 502, 503, 504))
