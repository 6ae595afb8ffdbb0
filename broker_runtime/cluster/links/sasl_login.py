"""Authenticates this node at brokers and controllers by PLAIN or SCRAM. Imported only if a listener needs it. Shell."""

import asyncio
import secrets
from collections.abc import Callable

from broker_runtime.apis.sasl.listener_settings import ListenerValues
from broker_runtime.config import BrokerSettings
from broker_runtime.config.declaring.definition import Key
from broker_runtime.errors import ConfigError, ErrorCode, KafkaError
from broker_runtime.network.connection.outgoing.client_connection import ClientConnection
from broker_runtime.wire.messages import Entity, Fields, decode_response, encode_request_body
from broker_runtime.wire.versions import SASL_AUTHENTICATE, SASL_HANDSHAKE
from kafka_bytes.sasl.mechanisms import PLAIN, PlainExchange, SaslError, SaslExchange
from kafka_bytes.sasl.scram import SCRAM_MECHANISMS, ScramExchange

_HANDSHAKE_VERSION, _AUTHENTICATE_VERSION = 1, 2
_MODULES = {PLAIN: "PlainLoginModule"} | dict.fromkeys(SCRAM_MECHANISMS, "ScramLoginModule")
_NONCE_BYTES = 18
_USED_SHARE = 0.85
"""Share of a session's lifetime after which its connection is replaced."""


class SaslLogin:
    """The login of this node at the nodes of one listener. `create` begins a SASL exchange."""

    def __init__(self, create: Callable[[], SaslExchange]) -> None:
        self._create = create

    async def __call__(self, connection: ClientConnection) -> None:
        """Authenticate a new connection to another node with SASL.

        Raises KafkaError(BROKER_NOT_AVAILABLE) if the server refuses this node.
        """
        exchange = self._create()
        wanted = {"mechanism": exchange.mechanism}
        answer = await _asked(connection, SASL_HANDSHAKE, _HANDSHAKE_VERSION, wanted)
        if answer.error_code != ErrorCode.NONE:
            offered = ", ".join(answer.mechanisms)
            raise _refused(connection, f"{exchange.mechanism} is not one of its mechanisms ({offered})")
        token: bytes | None = exchange.first()
        while token is not None:
            answer = await _asked(connection, SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, {"auth_bytes": token})
            if answer.error_code != ErrorCode.NONE:
                raise _refused(connection, answer.error_message or ErrorCode(answer.error_code).name)
            try:
                # SCRAM hashes the password thousands of times.
                token = await asyncio.to_thread(exchange.respond, answer.auth_bytes)
            except SaslError as error:
                raise _refused(connection, str(error)) from None
        lifetime_s = answer.session_lifetime.total_seconds()
        if lifetime_s > 0:
            connection.end_in(lifetime_s * _USED_SHARE)


async def _asked(connection: ClientConnection, key: int, version: int, fields: Fields) -> Entity:
    body = await connection.exchange(key, version, encode_request_body(key, version, fields))
    return decode_response(key, version, body)


def _refused(connection: ClientConnection, why: str) -> KafkaError:
    return KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"{connection.server} refuses this node: {why}")


def login_to(settings: BrokerSettings, listener: str, mechanism_key: Key[str]) -> SaslLogin:
    """Return the login of this node at a listener of other nodes. Raises ConfigError.

    `mechanism_key` is the key with the mechanism.
    """
    values = ListenerValues(settings, listener)
    name = values.get(mechanism_key).upper()
    if name not in _MODULES:
        raise ConfigError(
            f"{mechanism_key.name}: {name} is not supported for connections to {listener}; use one of "
            f"{', '.join(_MODULES)}"
        )
    module = values.login_module(name)
    options = {} if module is None or module.name != _MODULES[name] else module.options
    user, password = options.get("username"), options.get("password")
    if not user or not password:
        raise ConfigError(
            f"{values.jaas_key(name)} is needed, because this node authenticates at {listener} by {name}; set a "
            f"{_MODULES[name]} with the options username and password"
        )

    def create() -> SaslExchange:
        if name == PLAIN:
            return PlainExchange(user, password)
        return ScramExchange(name, user, password, secrets.token_urlsafe(_NONCE_BYTES))

    try:
        create()
    except SaslError as error:
        raise ConfigError(f"{values.jaas_key(name)}: {error}") from None
    return SaslLogin(create)
