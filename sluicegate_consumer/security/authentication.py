"""One authentication on a connection: SaslHandshake, then a token of the mechanism for each challenge (KIP-152)."""

import asyncio
from collections.abc import Awaitable, Callable

from kafka_bytes.sasl.mechanisms import SaslError, SaslExchange, refusal_words
from sluicegate_consumer.errors import AuthenticationError, Code, code_name
from sluicegate_consumer.security.credentials import Sasl
from sluicegate_consumer.wire.kafka import Request
from sluicegate_consumer.wire.sasl import (
    authenticate_request,
    handshake_request,
    read_authenticated,
    read_handshake,
)

SESSION_PART = 0.85
"""Part of a session's lifetime (KIP-368) after which the consumer authenticates again or opens a new connection."""
_STEPS_MAX = 5
"""Maximum number of tokens of one authentication; SCRAM has two."""

Ask = Callable[[Request], Awaitable[memoryview]]
"""Function that sends a request and returns the body of its response."""


async def authenticate(peer: str, sasl: Sasl, ask: Ask) -> float:
    """Authenticate a connection, and return the lifetime of the session in seconds; 0 for no end (KIP-368).

    Raises AuthenticationError, whose text contains no secret, ProtocolError, and the errors of `ask`.
    """
    reply = read_handshake(await ask(handshake_request(sasl.mechanism)))
    if reply.error_code != Code.NONE:
        offered = f"{', '.join(sorted(reply.mechanisms))!r:.200}" if reply.mechanisms else "not known"
        raise AuthenticationError(
            f"{peer} does not accept {sasl.mechanism} ({code_name(reply.error_code)}); its mechanisms are {offered}"
        )
    try:
        return await _exchange(await sasl.exchange(), ask)
    except SaslError as error:
        raise AuthenticationError(f"{peer} does not authenticate the consumer by {sasl.mechanism}: {error}") from None


async def _exchange(exchange: SaslExchange, ask: Ask) -> float:
    token: bytes | None = exchange.first()
    lifetime_s = 0.0
    for _ in range(_STEPS_MAX):
        if token is None:
            return lifetime_s
        reply = read_authenticated(await ask(authenticate_request(token)))
        if reply.error_code != Code.NONE:
            words = refusal_words(reply.error_message)
            shown = "".join(character if character.isprintable() else "?" for character in words)
            raise SaslError(f"the broker refused the credentials: {shown}")
        lifetime_s = max(reply.lifetime_ms, 0) / 1000
        # The hashes of SCRAM take milliseconds.
        challenge = reply.challenge
        token = await asyncio.to_thread(exchange.respond, challenge) if challenge else exchange.respond(challenge)
    raise SaslError("the broker does not end the exchange")
