"""SCRAM's messages are those of the examples in RFC 5802 and RFC 7677, and nothing else proves an identity."""

from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.security.sasl.mechanism import Authenticated, Challenge, SaslRefusedError
from broker_runtime.security.sasl.scram import ScramServer
from broker_runtime.security.sasl.scram_keys import ScramHash, ScramKeys
from broker_runtime.security.sasl.scram_messages import read_client_first
from kafka_bytes.sasl.scram import ScramExchange

SHA_256, SHA_512 = ScramHash("SCRAM-SHA-256"), ScramHash("SCRAM-SHA-512")


class Sha1(ScramHash):
    """The mechanism of RFC 5802's example, which this broker does not serve."""

    def __init__(self) -> None:
        self.mechanism, self._name = "SCRAM-SHA-1", "sha1"


RFC_5802 = (
    Sha1(),
    "QSXCR+Q6sek8bf92",
    "3rfcNHYJY1ZVvWVs7j",
    "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
    "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
    "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
)
RFC_7677 = (
    SHA_256,
    "W22ZaJ0SNY7soEsUEjb6gQ==",
    "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
    "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)


def keys_of(scram: ScramHash, password: str, salt: bytes, iterations: int = 4096) -> ScramKeys:
    return scram.keys(scram.salted_password(password, salt, iterations), salt, iterations)


USERS = {"alice": keys_of(SHA_512, "secret", b"salt"), "weak": keys_of(SHA_512, "secret", b"salt", 4095)}


def server() -> ScramServer:
    return ScramServer(SHA_512, USERS.get, "server", b"hidden")


def client(user: str, password: str) -> ScramExchange:
    return ScramExchange(SHA_512.mechanism, user, password, "client")


def challenge_of(one: ScramServer, message: bytes) -> bytes:
    step = one.step(message)
    assert isinstance(step, Challenge)
    return step.token


@pytest.mark.parametrize("example", [RFC_5802, RFC_7677], ids=["5802", "7677"])
def test_the_examples(example: tuple[ScramHash, str, str, str, str, str, str]) -> None:
    scram, salt, server_nonce, *messages = example
    first, sent, final, proved = (message.encode() for message in messages)
    keys = keys_of(scram, "pencil", b64decode(salt))
    here = ScramServer(scram, {"user": keys}.get, server_nonce, b"hidden")
    assert here.step(first) == Challenge(sent)
    assert here.step(final) == Authenticated("user", proved)


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("carol", "secret"), ("weak", "secret")])
def test_wrong_passwords_and_unknown_users_are_refused_after_the_proof(user: str, password: str) -> None:
    here, there = server(), client(user, password)
    proof = there.respond(challenge_of(here, there.first()))
    assert proof is not None
    with pytest.raises(SaslRefusedError) as refusal:
        here.step(proof)
    assert refusal.value.shown is None


def test_the_salt_of_an_unknown_user_stays_the_same() -> None:
    def salt(user: str) -> bytes:
        return challenge_of(server(), client(user, "x").first()).split(b",")[1]

    assert salt("carol") == salt("carol")
    assert salt("carol") != salt("dave")


def test_the_nonce_has_to_be_returned_exactly() -> None:
    """CVE-2024-56128, and what librdkafka before 2.6.1 sends."""
    here, there = server(), client("alice", "secret")
    proof = there.respond(challenge_of(here, there.first()))
    assert proof is not None
    with pytest.raises(SaslRefusedError, match=r"librdkafka before 2\.6\.1"):
        here.step(proof.replace(b"r=client", b"r=clientclient"))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"y,,n=alice,r=client",
        b"p=tls-unique,,n=alice,r=client",
        b"n,,n=al=ice,r=client",
        b"n,,n=alice,r=",
        b"n,,n=alice,r=a,b",
        b"n,,n=,r=client",
        b"n,,n=\xff,r=client",
        b"n,,n=alice,r=client,tokenauth=true",
        b"n,,n=alice,r=" + bytes([97]) * 70_000,
    ],
)
def test_other_first_messages_are_refused(message: bytes) -> None:
    with pytest.raises(SaslRefusedError):
        server().step(message)


@pytest.mark.parametrize(
    "final", [b"", b"c=biws,r=clientserver", b"c=biws,r=clientserver,p=!", b"c=biws,r=clientserver,p=AAA"]
)
def test_other_last_messages_are_refused(final: bytes) -> None:
    here = server()
    here.step(client("alice", "secret").first())
    with pytest.raises(SaslRefusedError):
        here.step(final)


def test_another_authorization_id_is_refused_with_a_text() -> None:
    with pytest.raises(SaslRefusedError) as refusal:
        server().step(b"n,a=root,n=alice,r=client")
    assert refusal.value.shown is not None
    assert isinstance(server().step(b"n,a=alice,n=alice,r=client,some=extension"), Challenge)


@given(st.text(min_size=1).filter(lambda name: "\0" not in name))
def test_names_are_escaped(name: str) -> None:
    assert read_client_first(client(name, "x").first()).user == name


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_any_bytes_are_refused(first: bytes, final: bytes) -> None:
    here = server()
    refused = 0
    for message in (first, final):
        try:
            assert isinstance(here.step(message), Challenge)
        except SaslRefusedError:
            refused += 1
    assert refused
