"""Checks of JSON Web Tokens (RFC 7519) with the public keys of their issuer (RFC 7517), by Apache Kafka's rules. Pure.

Imported with the first listener that has OAUTHBEARER: PyJWT and OpenSSL take 10 MB. Secrets shared with the issuer
(HS256) and tokens without a signature are never accepted.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jwt

from broker_runtime.security.sasl.mechanism import SaslRefusedError

_ALGORITHMS: Mapping[str, Sequence[str]] = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
"""Accepted algorithms by the type of key."""
_KEYS_MAX = 1_000
_PARTS = 3
_OPTIONS: Any = {
    f"verify_{part}": part == "signature" for part in ("signature", "exp", "nbf", "iat", "aud", "iss", "sub", "jti")
}


class KeySetError(Exception):
    """Error for a text that is not a JSON Web Key Set with a usable key."""


class TokenRefusedError(SaslRefusedError):
    """A client's OAUTHBEARER token is invalid."""


class UnknownKeyError(TokenRefusedError):
    """Error for a token that no known key has signed. `kid` names the token's key."""

    def __init__(self, kid: str | None) -> None:
        super().__init__("the token is of a key that is not in the key set")
        self.kid = kid


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The requirements of a valid token. Names of claims are those of the configuration."""

    issuer: str | None
    audiences: frozenset[str]
    clock_skew_s: int
    sub_claim: str
    scope_claim: str


@dataclass(frozen=True, slots=True)
class TokenClaims:
    """The content of a valid token: its principal, and the time of its expiry in milliseconds since 1970."""

    name: str
    expires_ms: int


Keys = Sequence[jwt.PyJWK]


def read_keys(text: bytes) -> Keys:
    """Return the keys for signatures of a key set, without keys of other kinds. Raises KeySetError."""
    try:
        listed = json.loads(text)["keys"]
        found = [key for each in listed[:_KEYS_MAX] if (key := _key(each)) is not None]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise KeySetError("it is not a JSON Web Key Set") from None
    if not found:
        raise KeySetError("it has no key for signatures by RSA, ECDSA or EdDSA")
    return found


def _key(each: Mapping[str, Any]) -> jwt.PyJWK | None:
    if each.get("kty") not in _ALGORITHMS or each.get("use", "sig") != "sig":
        return None
    try:
        return jwt.PyJWK.from_dict(dict(each))
    except jwt.PyJWTError:
        return None


def check_token(token: str, keys: Keys, rules: TokenRules, now_s: float) -> TokenClaims:
    """Return the claims of a valid token, within a millisecond. Raises TokenRefusedError."""
    claims = _signed(token, keys)
    expires_s, issued_s = _time(claims, "exp"), _time(claims, "iat")
    if now_s - rules.clock_skew_s >= expires_s:
        raise TokenRefusedError("the token has expired")
    if issued_s - rules.clock_skew_s > now_s:
        raise TokenRefusedError("the token was issued in the future")
    if expires_s < issued_s:
        raise TokenRefusedError("the token expires before it was issued")
    if "nbf" in claims and _time(claims, "nbf") - rules.clock_skew_s > now_s:
        raise TokenRefusedError("the token is not valid yet")
    _check_issuer(claims, rules)
    _check_audience(claims, rules)
    _check_scope(claims.get(rules.scope_claim))
    name = claims.get(rules.sub_claim)
    if not isinstance(name, str) or not name.strip() or not _is_text(name):
        raise TokenRefusedError(f"the token has no claim {rules.sub_claim} that is a name")
    return TokenClaims(name.strip(), int(expires_s * 1000))


def _is_text(name: str) -> bool:
    """Return whether UTF-8 has all of its characters: JSON may have halves of them."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _signed(token: str, keys: Keys) -> Mapping[str, Any]:
    parts = token.split(".")
    if len(parts) != _PARTS or not all(parts):
        raise TokenRefusedError("the token has not three parts: a header, claims and a signature")
    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError:
        raise TokenRefusedError("the header of the token cannot be read") from None
    kid, algorithm = header.get("kid"), header.get("alg")
    fitting = [
        key for key in keys if algorithm in _ALGORITHMS.get(key.key_type or "", ()) and kid in (None, key.key_id)
    ]
    if not fitting:
        raise UnknownKeyError(kid if isinstance(kid, str) else None)
    for key in fitting:
        try:
            claims: Mapping[str, Any] = jwt.decode(token, key.key, algorithms=[str(algorithm)], options=_OPTIONS)
        except jwt.InvalidSignatureError:
            continue
        except (jwt.PyJWTError, ValueError, TypeError):
            raise TokenRefusedError("the token cannot be read") from None
        return claims
    raise TokenRefusedError("the signature of the token is wrong")


def _time(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise TokenRefusedError(f"the token has no claim {name} that is a time")
    return value


def _check_issuer(claims: Mapping[str, Any], rules: TokenRules) -> None:
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenRefusedError("the issuer of the token is not sasl.oauthbearer.expected.issuer")


def _check_audience(claims: Mapping[str, Any], rules: TokenRules) -> None:
    """OffloadedCheck the audience. As in Apache Kafka, a token for an audience is refused if none is expected."""
    listed = claims.get("aud", [])
    audiences = {listed} if isinstance(listed, str) else set(map(str, listed)) if isinstance(listed, list) else {""}
    if not audiences and not rules.audiences:
        return
    if audiences.isdisjoint(rules.audiences):
        raise TokenRefusedError("the token is for another audience than sasl.oauthbearer.expected.audience")


def _check_scope(scope: object) -> None:
    """OffloadedCheck the form of the scopes: text separated by blanks, or a list without repetition."""
    scopes = scope.split() if isinstance(scope, str) else scope
    if scopes is None:
        return
    if not isinstance(scopes, list) or not all(isinstance(one, str) and one.strip() for one in scopes):
        raise TokenRefusedError("the scope of the token is not a text or a list of texts")
    if len({one.strip() for one in scopes}) != len(scopes):
        raise TokenRefusedError("the token has a scope twice")
