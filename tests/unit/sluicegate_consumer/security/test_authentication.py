"""SaslHandshake and SaslAuthenticate with a scripted broker."""

from collections.abc import Sequence
from struct import pack

import pytest

from sluicegate_consumer import AuthenticationError, SaslPassword
from sluicegate_consumer.errors import ProtocolError
from sluicegate_consumer.security.authentication import authenticate
from sluicegate_consumer.security.credentials import Sasl
from sluicegate_consumer.wire.kafka import Request

PLAIN = SaslPassword("PLAIN", "anna", "hidden")
SCRAM = SaslPassword("SCRAM-SHA-512", "anna", "hidden")
WELCOME = pack(">hi", 0, 0)


def answered(code: int, message: str | None, challenge: bytes = b"", lifetime_ms: int = 0) -> bytes:
    words = pack(">h", -1) if message is None else pack(">h", len(message)) + message.encode()
    return pack(">h", code) + words + pack(">i", len(challenge)) + challenge + pack(">q", lifetime_ms)


async def with_broker(sasl: Sasl, replies: Sequence[bytes]) -> tuple[float, list[Request]]:
    asked: list[Request] = []

    async def ask(request: Request) -> memoryview:
        asked.append(request)
        return memoryview(replies[len(asked) - 1])

    return await authenticate("k1:9092", sasl, ask), asked


async def test_plain_is_a_handshake_and_one_token() -> None:
    lifetime_s, asked = await with_broker(PLAIN, [WELCOME, answered(0, None, lifetime_ms=1500)])
    assert lifetime_s == 1.5
    assert asked == [Request(17, 1, b"\0\5PLAIN"), Request(36, 1, pack(">i", 12) + b"\0anna\0hidden")]


@pytest.mark.parametrize(
    ("sasl", "replies", "words"),
    [
        (PLAIN, [pack(">hih", 33, 1, 13) + b"SCRAM-SHA-512"], "its mechanisms are 'SCRAM-SHA-512'"),
        (PLAIN, [WELCOME, answered(58, "no\nuser")], r"refused the credentials: no\?user"),
        (PLAIN, [WELCOME, answered(58, None)], "gave no reason"),
        (SCRAM, [WELCOME, answered(0, None)], "SCRAM message does not continue"),
        (SCRAM, [WELCOME, answered(0, None, b"r=x,s=eA==,i=4096")], "does not continue"),
    ],
)
async def test_a_refusal_is_an_error_that_shows_no_secret(sasl: Sasl, replies: list[bytes], words: str) -> None:
    with pytest.raises(AuthenticationError, match=words) as refused:
        await with_broker(sasl, replies)
    assert "k1:9092" in str(refused.value)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("replies", [[b"\0"], [WELCOME, b"\0\0"], [WELCOME, answered(0, None) + b"x"]])
async def test_an_answer_that_is_not_kafkas_is_a_violation_of_the_protocol(replies: list[bytes]) -> None:
    with pytest.raises(ProtocolError):
        await with_broker(PLAIN, replies)
