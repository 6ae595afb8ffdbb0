"""Bearer tokens and key sets for tests, with keys that are made once."""

import json
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

NOW_S = 1_700_000_000
"""The time of tokens for tests without a real clock, in seconds since 1970."""


@cache
def rsa_key(number: int = 0) -> rsa.RSAPrivateKey:
    """One of several keys."""
    del number
    return rsa.generate_private_key(65_537, 2_048)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_set(*kids: int) -> bytes:
    """A JSON Web Key Set with the RSA keys of these numbers, and the other key as `ec`."""
    keys = [RSAAlgorithm.to_jwk(rsa_key(kid).public_key(), as_dict=True) | {"kid": str(kid)} for kid in kids]
    keys.append(ECAlgorithm.to_jwk(ec_key().public_key(), as_dict=True) | {"kid": "ec"})
    return json.dumps({"keys": [*keys, {"kty": "oct", "kid": "secret", "k": "c2VjcmV0"}]}).encode()


def claims(**changes: Any) -> dict[str, Any]:
    """The claims of a valid token; a changed value of None is left out."""
    usual = {"sub": "alice", "iat": NOW_S - 100, "exp": NOW_S + 300, "iss": "issuer", "aud": "kafka"} | changes
    return {name: value for name, value in usual.items() if value is not None}


def token(kid: int | str | None = 0, algorithm: str = "RS256", **changes: Any) -> str:
    """A signed token. `kid` names its key; None leaves the name out and uses the first key."""
    private: Any = ec_key() if algorithm.startswith("ES") else rsa_key(kid if isinstance(kid, int) else 0)
    headers = None if kid is None else {"kid": "ec" if algorithm.startswith("ES") else str(kid)}
    return jwt.encode(claims(**changes), private, algorithm, headers)
