"""Connections that authenticate, against a scripted broker; certificates that cannot be used."""

import asyncio
from datetime import timedelta

import pytest
from kio.schema.describe_cluster.v0.response import DescribeClusterResponse
from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v1.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.schema.types import BrokerId
from kio.static.primitive import i64Timedelta

from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.errors import AuthenticationError
from sluicegate_operator.kafka_admin.security.client_security import (
    PLAINTEXT,
    ClientSecurity,
    SaslSettings,
    SecurityError,
    TlsSettings,
)
from tests.support.fakes.scripted_peer import NO_THROTTLE, ScriptedPeer
from tests.support.processes.authority import TestAuthority

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE, DESCRIBE_CLUSTER = 18, 17, 36, 60
SECURITY = ClientSecurity(sasl=SaslSettings("PLAIN", "alice", "hidden-word"))
CLUSTER = DescribeClusterResponse(
    throttle_time=NO_THROTTLE, error_code=ErrorCode.none, cluster_id="c", controller_id=BrokerId(0), brokers=()
)


def authenticated(code: ErrorCode = ErrorCode.none, message: str | None = None, lifetime_s: float = 0.0) -> object:
    lifetime = i64Timedelta.parse(timedelta(seconds=lifetime_s))
    return SaslAuthenticateResponse(error_code=code, error_message=message, auth_bytes=b"", session_lifetime=lifetime)


@pytest.fixture
def peer() -> ScriptedPeer:
    peer = ScriptedPeer()
    peer.answer(CLUSTER)
    peer.answer(SaslHandshakeResponse(error_code=ErrorCode.none, mechanisms=("PLAIN",)))
    peer.answer(authenticated())  # type: ignore[arg-type]
    return peer


def client(peer: ScriptedPeer) -> AdminClient:
    return AdminClient([("b1", 9092)], connect=peer.connect, security=SECURITY)


def asked(peer: ScriptedPeer) -> list[int]:
    return [request.api_key for request in peer.requests]


async def test_a_connection_authenticates_before_its_first_request(peer: ScriptedPeer) -> None:
    async with client(peer) as admin:
        await admin.describe_cluster()
    assert asked(peer) == [API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE, DESCRIBE_CLUSTER]


async def test_a_mechanism_that_the_broker_lacks_is_named_with_those_that_it_has(peer: ScriptedPeer) -> None:
    unsupported = ErrorCode.unsupported_sasl_mechanism
    peer.answer(SaslHandshakeResponse(error_code=unsupported, mechanisms=("SCRAM-SHA-512", "OAUTHBEARER")))
    async with client(peer) as admin:
        with pytest.raises(AuthenticationError, match="does not accept PLAIN; its mechanisms are OAUTHBEARER, SCRAM"):
            await admin.describe_cluster()


async def test_refused_credentials_are_an_error_without_them(peer: ScriptedPeer) -> None:
    peer.answer(authenticated(ErrorCode.sasl_authentication_failed, "Authentication failed"))  # type: ignore[arg-type]
    async with client(peer) as admin:
        with pytest.raises(AuthenticationError, match="refused the credentials: Authentication failed") as refused:
            await admin.describe_cluster()
    assert "hidden-word" not in repr(refused.value) + str(refused.value) + repr(SECURITY)
    assert DESCRIBE_CLUSTER not in asked(peer)


@pytest.mark.virtual_time
async def test_a_session_that_ends_is_replaced_before_its_end(peer: ScriptedPeer) -> None:
    peer.answer(authenticated(lifetime_s=100.0))  # type: ignore[arg-type]
    async with client(peer) as admin:
        await admin.describe_cluster()
        await asyncio.sleep(80)
        await admin.describe_cluster()
        assert len(peer.connections) == 1
        await asyncio.sleep(10)
        await admin.describe_cluster()
        await asyncio.sleep(1)
    assert len(peer.connections) == 2
    assert peer.connections[0].closed


def test_a_protocol_has_kafkas_name() -> None:
    sasl = SaslSettings("PLAIN")
    found = [PLAINTEXT, ClientSecurity(TlsSettings()), ClientSecurity(sasl=sasl), ClientSecurity(TlsSettings(), sasl)]
    assert [one.protocol for one in found] == ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]


def test_certificates_that_cannot_be_used_are_refused() -> None:
    authority = TestAuthority()
    one, other = authority.issue("one"), authority.issue("other")
    TlsSettings(authority.pem, one.certificate, one.key).context()
    with pytest.raises(SecurityError, match="trusted certificates are not"):
        TlsSettings("none").context()
    with pytest.raises(SecurityError, match="they do not belong together"):
        TlsSettings(authority.pem, one.certificate, other.key).context()
    with pytest.raises(SecurityError, match="must not contain the character NUL"):
        ClientSecurity(sasl=SaslSettings("PLAIN", "a", "b\0")).check()
    assert "PRIVATE" not in repr(TlsSettings(authority.pem, one.certificate, one.key))


def test_comments_of_certificates_may_have_any_characters() -> None:
    authority, comment = TestAuthority(), "# Főtanúsítvány\n"
    one = authority.issue("one")
    found = TlsSettings(comment + authority.pem, comment + one.certificate, comment + one.key).context()
    assert len(found.get_ca_certs()) == 1
    with pytest.raises(SecurityError, match="trusted certificates are not"):
        TlsSettings(authority.pem.replace("\nM", "\nőM", 1)).context()
