"""OAUTHBEARER's messages (RFC 7628): a token is checked elsewhere, and a refusal needs an acknowledgement."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.security.sasl.mechanism import Authenticated, Challenge, OffloadedCheck, SaslRefusedError, Step
from broker_runtime.security.sasl.oauthbearer import INVALID_TOKEN, OAuthBearerServer
from kafka_bytes.sasl.mechanisms import BearerExchange

TOKENS = {"good.token": Authenticated("alice", expires_ms=5)}


def verify(token: str) -> Authenticated | SaslRefusedError:
    return TOKENS.get(token) or SaslRefusedError("no such token")


def checked(server: OAuthBearerServer, message: bytes) -> Step:
    step = server.step(message)
    assert isinstance(step, OffloadedCheck)
    return server.checked(step.work())


def test_a_good_token() -> None:
    client = BearerExchange("good.token")
    assert checked(OAuthBearerServer(verify), client.first()) == Authenticated("alice", b"", 5)
    assert client.respond(b"") is None


@pytest.mark.parametrize(
    "message",
    [
        b"n,a=alice,\x01auth=Bearer good.token\x01\x01",
        b"n,,\x01auth=bEARER good.token\x01host=x\x01port=1\x01\x01",
        b"n,,\x01traceId=123\x01auth=Bearer good.token\x01\x01",
    ],
)
def test_other_forms(message: bytes) -> None:
    assert checked(OAuthBearerServer(verify), message) == Authenticated("alice", b"", 5)


def test_a_bad_token_is_answered_before_the_exchange_fails() -> None:
    server, client = OAuthBearerServer(verify), BearerExchange("bad.token")
    step = checked(server, client.first())
    assert step == Challenge(INVALID_TOKEN.encode())
    acknowledgement = client.respond(INVALID_TOKEN.encode())
    assert acknowledgement == b"\x01"
    with pytest.raises(SaslRefusedError) as refusal:
        server.step(acknowledgement)
    assert (refusal.value.shown, str(refusal.value)) == (INVALID_TOKEN, "no such token")


def test_another_authorization_id_is_refused() -> None:
    with pytest.raises(SaslRefusedError, match="authorization id"):
        checked(OAuthBearerServer(verify), b"n,a=root,\x01auth=Bearer good.token\x01\x01")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic good.token\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer good token\x01\x01",
        b"n,,\x01auth=Bearer good.token\x01",
        b"n,,\x01auth=Bearer good.token\x01" + b"a=b\x01" * 100 + b"\x01",
        b"y,,\x01auth=Bearer good.token\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
    ],
)
def test_other_messages_are_refused(message: bytes) -> None:
    with pytest.raises(SaslRefusedError):
        OAuthBearerServer(verify).step(message)


@given(st.binary(max_size=60))
def test_any_bytes_are_refused(message: bytes) -> None:
    with pytest.raises(SaslRefusedError):
        OAuthBearerServer(verify).step(message)
