"""SCRAM's client side: the vectors of RFC 5802's family, and brokers that lie."""

import base64

import pytest

from kafka_bytes.sasl.mechanisms import SaslError
from kafka_bytes.sasl.scram import SCRAM_SHA_256, SCRAM_SHA_512, ScramExchange

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def exchange() -> ScramExchange:
    return ScramExchange(SCRAM_SHA_256, "user", "pencil", NONCE)


def test_the_example_of_rfc_7677() -> None:
    scram = exchange()
    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert scram.respond(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert scram.respond(SERVER_FINAL) is None


@pytest.mark.parametrize(
    ("challenge", "words"),
    [
        (b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode(), "nonce"),
        (f"r={NONCE}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1".encode(), "1 iterations"),
        (f"r={NONCE}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=999999999".encode(), "999999999 iterations"),
        (f"r={NONCE}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=9999999999999".encode(), "no number"),
        (f"r={NONCE}x,s=!,i=4096".encode(), "base64"),
        (f"r={NONCE}x,i=4096".encode(), "salt"),
        (b"\xff", "not text"),
    ],
)
def test_a_bad_first_message_of_the_broker_ends_the_exchange(challenge: bytes, words: str) -> None:
    with pytest.raises(SaslError, match=words):
        exchange().respond(challenge)


def test_a_broker_that_does_not_know_the_password_is_refused() -> None:
    scram = exchange()
    scram.respond(SERVER_FIRST)
    forged = base64.b64encode(b"x" * 32)
    with pytest.raises(SaslError, match="signature is wrong"):
        scram.respond(b"v=" + forged)


def test_a_refusal_of_the_broker_is_told_in_printable_characters() -> None:
    scram = exchange()
    scram.respond(SERVER_FIRST)
    with pytest.raises(SaslError, match="refused the SCRAM proof: other-error") as refused:
        scram.respond(b"e=other-error\n" + b"x" * 100)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 110


def test_commas_and_equals_signs_in_names_are_escaped() -> None:
    assert ScramExchange(SCRAM_SHA_512, "a=b,c", "x", "n").first() == b"n,,n=a=3Db=2Cc,r=n"
