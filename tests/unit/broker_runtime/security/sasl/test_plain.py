"""PLAIN accepts the right password, and refuses all else with Kafka's texts (RFC 4616)."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.security.sasl.mechanism import Authenticated, SaslRefusedError
from broker_runtime.security.sasl.plain import PlainServer
from kafka_bytes.sasl.mechanisms import PlainExchange

USERS = {"alice": "secret", "bøb": "pässword"}
INVALID = "Authentication failed: Invalid username or password"


@pytest.mark.parametrize(("user", "password"), USERS.items())
def test_the_clients_message_is_accepted(user: str, password: str) -> None:
    client = PlainExchange(user, password)
    assert PlainServer(USERS).step(client.first()) == Authenticated(user)
    assert client.respond(b"") is None


def test_the_authorization_id_may_be_the_user() -> None:
    assert PlainServer(USERS).step(b"alice\0alice\0secret") == Authenticated("alice")


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (b"\0alice\0wrong", INVALID),
        (b"\0alice\0secre", INVALID),
        (b"\0carol\0secret", INVALID),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (
            b"root\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"alice\0secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice\0\xff", None),
    ],
)
def test_other_messages_are_refused(message: bytes, shown: str | None) -> None:
    with pytest.raises(SaslRefusedError) as refusal:
        PlainServer(USERS).step(message)
    assert refusal.value.shown == shown
    assert "secret" not in str(refusal.value)


@given(st.binary(max_size=64))
def test_any_bytes_are_accepted_or_refused(message: bytes) -> None:
    try:
        PlainServer(USERS).step(message)
    except SaslRefusedError:
        return
    assert message.split(b"\0")[1].decode() in USERS


def test_a_message_of_very_many_parts_is_not_taken_apart() -> None:
    """Half a million parts would hold the event loop for milliseconds, before the client has authenticated."""
    message = bytes(524_288)
    tracemalloc.start()
    try:
        with pytest.raises(SaslRefusedError, match="expected 3 tokens, got 524289"):
            PlainServer(USERS).step(message)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(message)
