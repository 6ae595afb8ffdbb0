"""A node authenticates at another: the exchange, its refusals, and what the configuration needs."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from broker_runtime.cluster.links.sasl_login import login_to
from broker_runtime.config import BrokerConfig, broker_settings
from broker_runtime.errors import ConfigError, ErrorCode, KafkaError
from broker_runtime.network.connection.outgoing.client_connection import ClientConnection
from broker_runtime.security.sasl.mechanism import Authenticated, Challenge, SaslRefusedError, ServerMechanism
from broker_runtime.security.sasl.plain import PlainServer
from broker_runtime.security.sasl.scram import ScramServer
from broker_runtime.security.sasl.scram_keys import ScramHash
from broker_runtime.wire.messages import decode_request, encode_response_body
from broker_runtime.wire.versions import SASL_HANDSHAKE

KEY = BrokerConfig.sasl_mechanism_inter_broker_protocol
SCRAM = ScramHash("SCRAM-SHA-256")
KEYS = SCRAM.keys(SCRAM.salted_password("secret", b"salt", 4096), b"salt", 4096)
OPTIONS = 'required username="broker" password="secret";'


def given(mechanism: str, module: str = "", options: str = OPTIONS) -> Any:
    values = {
        "node.id": "1",
        "listeners": "INTERNAL://:1",
        "listener.security.protocol.map": "INTERNAL:SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": mechanism,
    }
    if module:
        values[f"listener.name.internal.{mechanism.lower()}.sasl.jaas.config"] = f"a.b.{module} {options}"
    return broker_settings(values)


class Server:
    """The other node, with one mechanism."""

    server = "broker 2 at there:1"

    def __init__(self, name: str, mechanism: ServerMechanism, lifetime_ms: int = 0) -> None:
        self._name = name
        self._mechanism = mechanism
        self._lifetime_ms = lifetime_ms
        self.user = ""
        self.ends_in_s: float | None = None

    def end_in(self, delay_s: float) -> None:
        self.ends_in_s = delay_s

    async def exchange(self, api_key: int, version: int, body: bytes) -> memoryview:
        request = decode_request(api_key, version, memoryview(body))
        if api_key == SASL_HANDSHAKE:
            code = ErrorCode.NONE if request.mechanism == self._name else ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return self._answer(api_key, version, {"error_code": code, "mechanisms": [self._name]})
        try:
            step = self._mechanism.step(request.auth_bytes)
        except SaslRefusedError:
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            return self._answer(api_key, version, {"error_code": code, "error_message": "no", "auth_bytes": b""})
        assert isinstance(step, Challenge | Authenticated)
        if isinstance(step, Authenticated):
            self.user = step.name
        good = {"error_code": ErrorCode.NONE, "error_message": "", "auth_bytes": step.token}
        return self._answer(api_key, version, {**good, "session_lifetime": self._lifetime_ms})

    def _answer(self, api_key: int, version: int, fields: dict[str, Any]) -> memoryview:
        return memoryview(encode_response_body(api_key, version, fields))


def plain(password: str = "secret", lifetime_ms: int = 0) -> Server:
    return Server("PLAIN", PlainServer({"broker": password}), lifetime_ms)


async def login(settings: Any, server: Server) -> None:
    await login_to(settings, "INTERNAL", KEY)(cast("ClientConnection", server))


async def test_plain_and_scram() -> None:
    servers: Sequence[tuple[Server, Any]] = [
        (plain(), given("PLAIN", "PlainLoginModule")),
        (
            Server("SCRAM-SHA-256", ScramServer(SCRAM, {"broker": KEYS}.get, "nonce", b"")),
            given("SCRAM-SHA-256", "ScramLoginModule"),
        ),
    ]
    for server, settings in servers:
        await login(settings, server)
        assert server.user == "broker"
        assert server.ends_in_s is None


async def test_a_connection_is_replaced_before_its_session_ends() -> None:
    server = plain(lifetime_ms=10_000)
    await login(given("PLAIN", "PlainLoginModule"), server)
    assert server.ends_in_s == 8.5


async def test_refusals() -> None:
    settings = given("PLAIN", "PlainLoginModule")
    with pytest.raises(KafkaError, match="broker 2 at there:1 refuses this node: no"):
        await login(settings, plain("other"))
    with pytest.raises(KafkaError, match=r"PLAIN is not one of its mechanisms \(SCRAM-SHA-256\)") as refusal:
        await login(settings, Server("SCRAM-SHA-256", PlainServer({})))
    assert refusal.value.code is ErrorCode.BROKER_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (given("GSSAPI"), "GSSAPI is not supported for connections to INTERNAL"),
        (given("OAUTHBEARER"), "OAUTHBEARER is not supported"),
        (given("PLAIN"), "plain.sasl.jaas.config is needed"),
        (given("PLAIN", "ScramLoginModule"), "PlainLoginModule with the options username and password"),
        (given("PLAIN", "PlainLoginModule", 'required username="broker";'), "with the options username and password"),
        (
            given("PLAIN", "PlainLoginModule", 'required username="broker" password="secret\0";'),
            "plain.sasl.jaas.config: a user name or password of PLAIN must not contain the character NUL",
        ),
    ],
)
def test_what_the_configuration_needs(settings: Any, expected: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        login_to(settings, "INTERNAL", KEY)
    assert expected in str(refusal.value)
    assert "secret" not in str(refusal.value)
