"""Tokens are accepted by Apache Kafka's rules (BrokerJwtValidatorTest), and for nothing else."""

import json
from base64 import urlsafe_b64encode
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.security.sasl.tokens import (
    KeySetError,
    TokenClaims,
    TokenRefusedError,
    TokenRules,
    UnknownKeyError,
    check_token,
    read_keys,
)
from tests.support.requests.tokens import NOW_S, claims, key_set, rsa_key, token

RULES = TokenRules("issuer", frozenset({"kafka", "other"}), 30, "sub", "scope")
SERVICE_ACCOUNT = "system:serviceaccount:shop:orders"


def checked(text: str, rules: TokenRules = RULES) -> TokenClaims:
    return check_token(text, read_keys(key_set(0, 1)), rules, NOW_S)


@pytest.mark.parametrize(
    "good",
    [
        {},
        {"algorithm": "ES256"},
        {"algorithm": "PS256"},
        {"kid": None},
        {"aud": ["x", "other"]},
        {"exp": NOW_S - 29},
        {"nbf": NOW_S + 30},
        {"scope": "read write"},
        {"scope": ["read", "write"]},
    ],
)
def test_valid_tokens(good: dict[str, Any]) -> None:
    assert checked(token(**good)) == TokenClaims("alice", good.get("exp", NOW_S + 300) * 1000)


def test_the_names_of_the_claims_are_configured() -> None:
    rules = TokenRules(None, frozenset({"kafka"}), 0, "client_id", "scp")
    assert checked(token(sub=None, client_id="bob", scope="a a"), rules).name == "bob"
    assert checked(token(sub=SERVICE_ACCOUNT)).name == SERVICE_ACCOUNT


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ({"exp": NOW_S - 30}, "expired"),
        ({"sub": "a\ud800"}, "no claim sub that is a name"),
        ({"exp": None}, "no claim exp"),
        ({"exp": "soon"}, "no claim exp"),
        ({"exp": True}, "no claim exp"),
        ({"iat": None}, "no claim iat"),
        ({"iat": NOW_S + 31}, "issued in the future"),
        ({"iat": NOW_S + 20, "exp": NOW_S + 10}, "expires before"),
        ({"nbf": NOW_S + 31}, "not valid yet"),
        ({"iss": "stranger"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": "stranger"}, "audience"),
        ({"aud": None}, "audience"),
        ({"sub": None}, "no claim sub"),
        ({"sub": " "}, "no claim sub"),
        ({"scope": "a a"}, "twice"),
        ({"scope": [1]}, "scope"),
    ],
)
def test_refused_claims(bad: dict[str, Any], expected: str) -> None:
    with pytest.raises(TokenRefusedError, match=expected):
        checked(token(**bad))


def test_a_token_with_an_audience_is_refused_if_none_is_expected() -> None:
    rules = TokenRules(None, frozenset(), 30, "sub", "scope")
    with pytest.raises(TokenRefusedError, match="audience"):
        checked(token(), rules)
    assert checked(token(aud=None), rules).name == "alice"


def test_unknown_keys_are_told_apart() -> None:
    with pytest.raises(UnknownKeyError) as refusal:
        checked(token(kid=7))
    assert refusal.value.kid == "7"


def part(content: Any) -> str:
    return urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def test_other_signatures_are_refused() -> None:
    unsigned = f"{part({'alg': 'none'})}.{part(claims())}.AAAA"
    shared = jwt.encode(claims(), b"secret" * 8, "HS256", {"kid": "secret"})
    foreign = jwt.encode(claims(), rsa_key(1), "RS256", {"kid": "0"})
    head, body, signature = token().split(".")
    changed = ".".join((head, part(claims(sub="root")), signature))
    for bad in (unsigned, shared, foreign, changed, f"{head}.{body}.", f"{head}.{body}", f".{body}.{signature}", ""):
        with pytest.raises(TokenRefusedError):
            checked(bad)


@given(st.text(max_size=60))
def test_any_text_is_refused(text: str) -> None:
    with pytest.raises(TokenRefusedError):
        checked(text)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys": 1}',
        b'{"keys": []}',
        b'{"keys": [{"kty": "oct"}]}',
        b'{"keys": ["RSA", 1]}',
        b'{"keys":' + b"[" * 100_000,
        b"\xff",
    ],
)
def test_key_sets_without_a_key_are_refused(text: bytes) -> None:
    with pytest.raises(KeySetError):
        read_keys(text)
