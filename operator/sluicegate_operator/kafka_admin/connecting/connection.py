"""One connection to one broker: ApiVersions and authentication first, then exchanges of requests and answers.

The module does not know what the requests mean.
"""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TypeVar

from kio.schema.api_versions.v0.request import ApiVersionsRequest as ApiVersionsRequestV0
from kio.schema.api_versions.v0.response import ApiVersionsResponse as ApiVersionsResponseV0
from kio.schema.api_versions.v3.request import ApiVersionsRequest as ApiVersionsRequestV3
from kio.schema.api_versions.v3.response import ApiVersionsResponse as ApiVersionsResponseV3
from kio.schema.errors import ErrorCode
from kio.static.protocol import RequestPayload, ResponsePayload

from sluicegate_operator.kafka_admin.connecting.exchange import Exchange
from sluicegate_operator.kafka_admin.connecting.frames import decode_reply
from sluicegate_operator.kafka_admin.connecting.known_answers import KnownAnswers
from sluicegate_operator.kafka_admin.connecting.reading import MalformedError
from sluicegate_operator.kafka_admin.connecting.request_pipeline import RequestPipeline
from sluicegate_operator.kafka_admin.errors import (
    Address,
    AdminConnectionError,
    AdminProtocolError,
    AuthenticationError,
    UnsupportedApiError,
    check,
)
from sluicegate_operator.kafka_admin.security.authentication import authenticate
from sluicegate_operator.kafka_admin.security.client_security import Connect, SaslSettings, open_tcp

Reply = TypeVar("Reply", bound=ResponsePayload)
Result = TypeVar("Result")

READ_HERE_BYTES = 32 * 1024
"""Longest reply that is decoded on the event loop; a longer one is decoded in a thread.

10,000 quotas take a tenth of a second.
"""
CONNECT_TIMEOUT_S = 2.0
SESSION_PART = 0.85
"""Part of a session's lifetime (KIP-368) after which a new connection is opened instead of authenticating again."""


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """The settings of a connection to a broker.

    `may_write` is called directly before a request that changes anything is sent. With `sasl` the connection
    authenticates before the first request.
    """

    request_timeout_s: float
    client_id: str
    may_write: Callable[[], bool] = lambda: True
    known_answers: KnownAnswers = field(default_factory=KnownAnswers)
    sasl: SaslSettings | None = None


class Connection(RequestPipeline):
    """A connection to one broker, from `Connection.open`. When `closed` is true, every call raises: open a new one."""

    def __init__(self, address: Address, settings: ConnectionSettings) -> None:
        super().__init__(address, settings.client_id, settings.request_timeout_s, settings.may_write)
        self._settings = settings
        self._versions: dict[int, tuple[int, int]] = {}
        self._expires_s = float("inf")
        """Time of the event loop's clock after which no request is sent: the broker would close the connection."""

    @property
    def expired(self) -> bool:
        """Return whether the authenticated session ends soon, so that the next request needs a new connection."""
        return asyncio.get_running_loop().time() >= self._expires_s

    @classmethod
    async def open(cls, address: Address, settings: ConnectionSettings, connect: Connect = open_tcp) -> "Connection":
        """Connect to a broker, and read the API versions that the broker supports."""
        connection = cls(address, settings)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await connect(address, lambda: connection)
        except TimeoutError:
            raise AdminConnectionError(address, f"not connected within {CONNECT_TIMEOUT_S:g} s") from None
        except ssl.SSLError as error:
            raise AuthenticationError(address, _tls_words(address, error)) from None
        except OSError as error:
            raise AdminConnectionError(address, f"cannot connect: {error.strerror or error}") from error
        try:
            await connection._learn_versions()
            await connection._authenticate()
        except BaseException:
            connection.close()
            raise
        return connection

    async def call(self, exchange: Exchange[Reply, Result]) -> Result:
        self._require_version(exchange)
        frame = await self.round_trip(exchange.request, exchange.api, alters=exchange.alters)
        if _is_empty(frame):
            raise UnsupportedApiError(self.address, exchange.api, exchange.request.__version__, None)
        try:
            if exchange.keeps_answer:
                return await self._settings.known_answers.read(exchange, frame, self._read_in_time)
            return await self._read_in_time(exchange, frame)
        except AdminProtocolError as broken:
            self.fail(broken)
            raise

    async def _read_in_time(self, exchange: Exchange[Reply, Result], frame: bytes) -> Result:
        if len(frame) <= READ_HERE_BYTES:
            return self._read(exchange, frame)
        return await asyncio.to_thread(self._read, exchange, frame)

    def _read(self, exchange: Exchange[Reply, Result], frame: bytes) -> Result:
        return exchange.read(self._decode(exchange.reply_type, frame))

    def _decode(self, kind: type[Reply], frame: bytes) -> Reply:
        try:
            return decode_reply(kind, frame)
        except MalformedError as error:
            raise AdminProtocolError(
                self.address, f"the broker sent a response that cannot be read: {error}"
            ) from error

    def _require_version(self, exchange: Exchange[Reply, Result]) -> None:
        if not exchange.listed:
            return
        wanted = exchange.request.__version__
        served = self._versions.get(exchange.request.__api_key__)
        if served is None or not served[0] <= wanted <= served[1]:
            raise UnsupportedApiError(self.address, exchange.api, wanted, served)

    async def _learn_versions(self) -> None:
        """Request version 3 first; a broker that does not know it answers in the layout of version 0 (KIP-511)."""
        asked = ApiVersionsRequestV3(client_software_name="sluicegate", client_software_version=version("sluicegate"))
        frame = await self.round_trip(asked, "ApiVersions")
        reply: ApiVersionsResponseV3 | ApiVersionsResponseV0
        if _declines(frame):
            frame = await self.round_trip(ApiVersionsRequestV0(), "ApiVersions")
            reply = self._decode(ApiVersionsResponseV0, frame)
        else:
            reply = self._decode(ApiVersionsResponseV3, frame)
        check(reply.error_code, None, "requesting the broker's versions")
        self._versions = {key.api_key: (key.min_version, key.max_version) for key in reply.api_keys}

    async def _authenticate(self) -> None:
        """Authenticate, if the settings have credentials. Raises AuthenticationError."""
        if self._settings.sasl is None:
            return

        async def ask(request: RequestPayload, reply_type: type[Reply]) -> Reply:
            api = type(request).__name__.removesuffix("Request")
            return self._decode(reply_type, await self.round_trip(request, api))

        began_s = asyncio.get_running_loop().time()
        lifetime_s = await authenticate(self.address, self._settings.sasl, ask)
        if lifetime_s > 0:
            self._expires_s = began_s + SESSION_PART * lifetime_s


def _tls_words(address: Address, error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the broker's certificate is not accepted for {address[0]}: {error.verify_message}"
    return f"the TLS handshake failed: {error.reason or error}"


def _declines(frame: bytes) -> bool:
    """Return whether the frame has UNSUPPORTED_VERSION after the correlation id, or nothing."""
    return _is_empty(frame) or frame[4:6] == int(ErrorCode.unsupported_version).to_bytes(2, "big")


def _is_empty(frame: bytes) -> bool:
    """Return whether the frame is only a correlation id, with which some brokers answer unknown requests."""
    return len(frame) == 4
