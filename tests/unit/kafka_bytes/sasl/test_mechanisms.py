"""PLAIN and OAUTHBEARER: their tokens, and errors that repeat no secret."""

import pytest

from kafka_bytes.sasl.mechanisms import BearerExchange, PlainExchange, SaslError, refusal_words


def test_plain_is_one_token() -> None:
    plain = PlainExchange("alice", "pass wörd")
    assert plain.first() == "\0alice\0pass wörd".encode()
    assert plain.respond(b"") is None


def test_a_bearer_token_is_acknowledged_when_it_is_refused() -> None:
    bearer = BearerExchange("a.b.c")
    assert bearer.first() == b"n,,\x01auth=Bearer a.b.c\x01\x01"
    assert bearer.respond(b"") is None
    assert bearer.respond(b'{"status":"invalid_token"}') == b"\x01"


@pytest.mark.parametrize("token", ["", "a b", "a\n", "a\x01b"])
def test_what_is_not_a_token_is_refused_without_repeating_it(token: str) -> None:
    with pytest.raises(SaslError) as refused:
        BearerExchange(token)
    assert not token or token not in str(refused.value)


def test_the_brokers_reason_is_cut_and_read_from_json() -> None:
    assert refusal_words('{"status":"invalid_token"}') == "invalid_token"
    assert refusal_words(None) == "the broker gave no reason"
    assert len(refusal_words("x" * 1000)) == 200
    assert refusal_words("[1]") == "[1]"
    assert refusal_words("[" * 100_000) == "[" * 200
