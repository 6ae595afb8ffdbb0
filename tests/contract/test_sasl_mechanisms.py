"""What every mechanism of SASL keeps to: the right credential authenticates, nothing else does, and nothing leaks."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.security.sasl.mechanism import (
    Authenticated,
    Challenge,
    OffloadedCheck,
    SaslRefusedError,
    ServerMechanism,
)
from broker_runtime.security.sasl.oauthbearer import OAuthBearerServer
from broker_runtime.security.sasl.plain import PlainServer
from broker_runtime.security.sasl.scram import ScramServer
from broker_runtime.security.sasl.scram_keys import ScramHash
from kafka_bytes.sasl.mechanisms import BearerExchange, PlainExchange, SaslExchange
from kafka_bytes.sasl.scram import ScramExchange

USER, SECRET = "alice", "hunter2"
STEPS_MAX = 5


@dataclass(frozen=True)
class Mechanism:
    server: Callable[[], ServerMechanism]
    client: Callable[[str, str], SaslExchange]


def scram(name: str) -> Mechanism:
    hashes = ScramHash(name)
    keys = {USER: hashes.keys(hashes.salted_password(SECRET, b"salt", 4096), b"salt", 4096)}
    return Mechanism(
        lambda: ScramServer(hashes, keys.get, "server", b"hidden"),
        lambda user, secret: ScramExchange(name, user, secret, "client"),
    )


def verify(token: str) -> Authenticated | SaslRefusedError:
    user, _, secret = token.partition(".")
    good = (user, secret) == (USER, SECRET)
    return Authenticated(user, expires_ms=1) if good else SaslRefusedError("the token is not valid")


MECHANISMS = {
    "PLAIN": Mechanism(lambda: PlainServer({USER: SECRET}), PlainExchange),
    "SCRAM-SHA-256": scram("SCRAM-SHA-256"),
    "SCRAM-SHA-512": scram("SCRAM-SHA-512"),
    "OAUTHBEARER": Mechanism(
        lambda: OAuthBearerServer(verify), lambda user, secret: BearerExchange(f"{user}.{secret}")
    ),
}


@pytest.fixture(params=MECHANISMS)
def mechanism(request: pytest.FixtureRequest) -> Mechanism:
    return MECHANISMS[request.param]


def exchanged(server: ServerMechanism, client: SaslExchange) -> Authenticated:
    """Run an exchange to its end. Raises SaslRefusedError."""
    token: bytes | None = client.first()
    for _ in range(STEPS_MAX):
        assert token is not None, "the client has ended, and the server has not"
        step = server.step(token)
        while isinstance(step, OffloadedCheck):
            step = server.checked(step.work())
        if isinstance(step, Authenticated):
            assert client.respond(step.token) is None
            return step
        assert isinstance(step, Challenge)
        token = client.respond(step.token)
    raise AssertionError("the exchange does not end")


def test_the_right_credential_authenticates(mechanism: Mechanism) -> None:
    assert exchanged(mechanism.server(), mechanism.client(USER, SECRET)).name == USER


@pytest.mark.parametrize(("user", "secret"), [(USER, "wrong"), ("carol", SECRET), (USER, SECRET + "2"), (USER, "x")])
def test_other_credentials_are_refused_without_a_secret_in_the_text(
    mechanism: Mechanism, user: str, secret: str
) -> None:
    with pytest.raises(SaslRefusedError) as refusal:
        exchanged(mechanism.server(), mechanism.client(user, secret))
    assert SECRET not in f"{refusal.value} {refusal.value.shown}"


def test_exchanges_are_independent(mechanism: Mechanism) -> None:
    one, other = mechanism.server(), mechanism.server()
    with pytest.raises(SaslRefusedError):
        exchanged(one, mechanism.client(USER, "wrong"))
    assert exchanged(other, mechanism.client(USER, SECRET)).name == USER


@pytest.mark.parametrize("name", MECHANISMS)
@given(messages=st.lists(st.binary(max_size=60), min_size=1, max_size=3))
def test_any_bytes_authenticate_nobody(name: str, messages: list[bytes]) -> None:
    server = MECHANISMS[name].server()
    for message in messages:
        try:
            step = server.step(message)
        except SaslRefusedError:
            return
        assert not isinstance(step, Authenticated)


@pytest.mark.parametrize("name", MECHANISMS)
@given(at=st.integers(0, 200), bit=st.integers(0, 7))
def test_a_changed_bit_of_the_first_message_is_refused_or_names_the_same_user(name: str, at: int, bit: int) -> None:
    """A change in a part that has no meaning, such as the letter case of a scheme, may be accepted."""
    client = MECHANISMS[name].client(USER, SECRET)
    message = bytearray(client.first())
    message[at % len(message)] ^= 1 << bit
    server = MECHANISMS[name].server()
    try:
        step = server.step(bytes(message))
        if isinstance(step, OffloadedCheck):
            step = server.checked(step.work())
    except SaslRefusedError:
        return
    if isinstance(step, Authenticated):
        assert step.name == USER


def test_objects_show_no_secret(mechanism: Mechanism) -> None:
    assert SECRET not in repr(mechanism.server()) + repr(mechanism.client(USER, SECRET))
