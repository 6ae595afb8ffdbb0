"""SaslHandshake and SaslAuthenticate (KIP-43, KIP-152) on a new connection, for any mechanism."""

import asyncio
from typing import Protocol, TypeVar

from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v1.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v1.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.static.protocol import RequestPayload, ResponsePayload

from kafka_bytes.sasl.mechanisms import SaslError, SaslExchange, refusal_words
from sluicegate_operator.kafka_admin.errors import Address, AuthenticationError
from sluicegate_operator.kafka_admin.security.client_security import SaslSettings

Reply = TypeVar("Reply", bound=ResponsePayload)

STEPS_MAX = 5
"""Maximum number of tokens of one authentication; SCRAM has two."""


class Ask(Protocol):
    """A function that sends a request on the connection and returns the reply."""

    async def __call__(self, request: RequestPayload, reply_type: type[Reply], /) -> Reply: ...


async def authenticate(address: Address, settings: SaslSettings, ask: Ask) -> float:
    """Authenticate a connection, and return the lifetime of the session in seconds; 0 for no end (KIP-368).

    Raises AuthenticationError, whose text contains no secret.
    """
    handshake = await ask(SaslHandshakeRequest(mechanism=settings.mechanism), SaslHandshakeResponse)
    if handshake.error_code is not ErrorCode.none:
        offered = ", ".join(sorted(handshake.mechanisms)) or "none"
        words = f"the broker does not accept {settings.mechanism}; its mechanisms are {offered}"
        raise AuthenticationError(address, words)
    try:
        return await _exchange(settings.exchange(), ask)
    except SaslError as error:
        raise AuthenticationError(address, f"{settings.mechanism}: {error}") from None


async def _exchange(exchange: SaslExchange, ask: Ask) -> float:
    token: bytes | None = exchange.first()
    lifetime_s = 0.0
    for _ in range(STEPS_MAX):
        if token is None:
            return lifetime_s
        reply = await ask(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse)
        if reply.error_code is not ErrorCode.none:
            raise SaslError(f"the broker refused the credentials: {refusal_words(reply.error_message)}")
        lifetime_s = reply.session_lifetime.total_seconds()
        token = await _respond(exchange, reply.auth_bytes)
    raise SaslError("the broker does not end the exchange")


async def _respond(exchange: SaslExchange, challenge: bytes) -> bytes | None:
    """Return the next token; only SCRAM has challenges with content, and its hashes take milliseconds."""
    return await asyncio.to_thread(exchange.respond, challenge) if challenge else exchange.respond(challenge)
