"""Messages of SASL, as broker and as client, tokens, and the keys of their issuers."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from contextlib import suppress

from broker_runtime.apis.sasl.frames import SaslRequest, api_key_of
from broker_runtime.errors import ConfigError, ProtocolError
from broker_runtime.security.sasl.mechanism import Authenticated, OffloadedCheck, SaslRefusedError
from broker_runtime.security.sasl.oauthbearer import OAuthBearerServer
from broker_runtime.security.sasl.plain import PlainServer
from broker_runtime.security.sasl.scram import ScramServer
from broker_runtime.security.sasl.scram_bootstrap import first_credentials
from broker_runtime.security.sasl.scram_keys import ScramHash
from broker_runtime.security.sasl.tokens import KeySetError, TokenRefusedError, TokenRules, check_token, read_keys
from broker_runtime.wire.versions import SASL_AUTHENTICATE, SASL_HANDSHAKE
from kafka_bytes.sasl.mechanisms import BearerExchange, PlainExchange, SaslError
from kafka_bytes.sasl.scram import ScramExchange
from tests.fuzz.target import Cut, Target, text_of
from tests.support.requests.request_frames import encode_request
from tests.support.requests.tokens import NOW_S, key_set, token

_HASH = ScramHash("SCRAM-SHA-256")
_NONCE = "fyko+d2lbbFgONRv9qkxdawL"
_SALT = b"salt of 16 bytes"
_ITERATIONS = 4_096
_KEYS = _HASH.keys(_HASH.salted_password("secret", _SALT, _ITERATIONS), _SALT, _ITERATIONS)
_RULES = TokenRules("issuer", frozenset({"kafka"}), 30, "sub", "scope")


def _plain(data: bytes) -> None:
    with suppress(SaslRefusedError):
        found = PlainServer({"alice": "secret"}).step(data)
        assert found == Authenticated("alice")
        assert data.endswith(b"alice\0secret")


def _server() -> ScramServer:
    return ScramServer(_HASH, {"alice": _KEYS}.get, _NONCE, b"hidden")


def _client() -> ScramExchange:
    return ScramExchange(_HASH.mechanism, "alice", "secret", _NONCE)


def _scram_server(data: bytes) -> None:
    """Both messages of a client: only the client's own proof, which has the password, is accepted."""
    server = _server()
    with suppress(SaslRefusedError):
        for part in Cut(data).parts():
            assert not isinstance(server.step(part), Authenticated)


def _scram_clients(data: bytes) -> None:
    """Messages of a server for brokers, the operator and the consumer as clients."""
    parts = list(Cut(data).parts())
    # A client allows many iterations, which take long: those of the input must be few.
    if any(len(part.partition(b"i=")[2].partition(b",")[0]) > 4 for part in parts):
        return
    with suppress(SaslError):
        exchange = _client()
        exchange.first()
        for part in parts:
            assert exchange.respond(part) is not None, "a server without the password is not believed"


def _client_messages() -> Iterable[bytes]:
    client, server = _client(), _server()
    first = client.first()
    challenge = server.step(first)
    final = b"c=biws,r=" + _NONCE.encode() * 2 + b",p=" + b"A" * 43 + b"="
    yield _in_parts(first, final)
    yield _in_parts(b"n,a=alice,n=al=2Cice,r=" + _NONCE.encode() + b",ext=1")
    yield _in_parts(getattr(challenge, "token", b""))


def _server_messages() -> Iterable[bytes]:
    challenge = _server().step(b"n,,n=alice,r=" + _NONCE.encode())
    yield _in_parts(getattr(challenge, "token", b""), b"v=" + b"A" * 43 + b"=")
    yield _in_parts(getattr(challenge, "token", b""), b"e=other-error")


def _in_parts(*parts: bytes) -> bytes:
    return b"".join(bytes((len(part),)) + part for part in parts)


def _bearer(data: bytes) -> None:
    server = OAuthBearerServer(lambda bearer: Authenticated(bearer))
    with suppress(SaslRefusedError):
        step = server.step(data)
        assert isinstance(step, OffloadedCheck)
        found = server.checked(step.work())
        assert isinstance(found, Authenticated)
        assert BearerExchange(found.name).first()


def _bearer_messages() -> Iterable[bytes]:
    yield BearerExchange("a.b.c").first()
    yield b"n,a=x=2Cy,\x01auth=Bearer t\x01\x01"


def _token(data: bytes) -> None:
    keys = read_keys(key_set(0))
    with suppress(TokenRefusedError):
        check_token(data.decode("latin-1"), keys, _RULES, NOW_S)


def _token_parts(data: bytes) -> None:
    """Header and claims as JSON, which are encoded here: changed texts of a token are seldom JSON."""
    parts = [urlsafe_b64encode(part).rstrip(b"=").decode() for part in data.split(b"\0")]
    with suppress(TokenRefusedError):
        check_token(".".join(parts), read_keys(key_set(0)), _RULES, NOW_S)
        raise AssertionError("a token without the signature of its issuer is accepted")


def _claims() -> Iterable[bytes]:
    header = json.dumps({"alg": "RS256", "kid": "0", "typ": "JWT"}).encode()
    claims = json.dumps({"sub": "alice", "iat": NOW_S, "exp": NOW_S + 9, "aud": ["kafka"], "scope": "a b"}).encode()
    yield header + b"\0" + claims + b"\0" + b"signature"
    yield b"[" * 3_000 + b"\0" + claims + b"\0s"


def _key_set(data: bytes) -> None:
    with suppress(KeySetError):
        assert read_keys(data)


def _frame(data: bytes) -> None:
    """Requests of a connection that is not authenticated."""
    frame = memoryview(data)
    api_key_of(frame)
    with suppress(ProtocolError):
        request = SaslRequest(frame)
        request.illegal()
        if request.body is not None and request.key == SASL_AUTHENTICATE:
            request.failed("no")
            request.authenticated(b"token")


def _frames() -> Iterable[bytes]:
    for version in (0, 1):
        yield encode_request(SASL_HANDSHAKE, version, 1, {"mechanism": "PLAIN"})[4:]
    for version in (0, 1, 2):
        yield encode_request(SASL_AUTHENTICATE, version, 1, {"auth_bytes": b"\0alice\0secret"})[4:]


def _first_credentials(data: bytes) -> None:
    text = text_of(data)
    # Their number is in the file, and a high one takes long.
    if "iterations" in text and "iterations=4096" not in text:
        return
    with suppress(ConfigError):
        for _ in first_credentials(text[:512], "sluicegate.scram.file", lambda: _SALT):
            pass


TARGETS = (
    Target("sasl-plain", _plain, lambda: (PlainExchange("alice", "secret").first(), b"bob\0alice\0wrong")),
    Target("scram-server", _scram_server, _client_messages),
    Target("scram-client", _scram_clients, _server_messages),
    Target("oauthbearer", _bearer, _bearer_messages),
    Target("token", _token, lambda: (token().encode(), token(kid="ec", algorithm="ES256").encode())),
    Target("token-parts", _token_parts, _claims, 16_384),
    Target("key-set", _key_set, lambda: (key_set(0, 1), b'{"keys":' + b"[" * 3_000), 8_192),
    Target("sasl-frame", _frame, _frames),
    Target(
        "first-credentials",
        _first_credentials,
        lambda: (b"SCRAM-SHA-256=[name=alice,iterations=4096,password=secret]\n",),
        512,
    ),
)
