"""Credentials of an external cluster from Secrets: which are used, and what is reported about unusable ones."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, parse_resource
from sluicegate_operator.fleet.external import external_security
from sluicegate_operator.fleet.external.external_security import ExternalSecurity, SecretUnusableError, no_secrets
from sluicegate_operator.kafka_admin.security.client_security import (
    PLAINTEXT,
    ClientSecurity,
    SaslSettings,
    TlsSettings,
)
from sluicegate_operator.kube.http.errors import KubeError
from tests.support.manifests import bad_manifests
from tests.support.processes.authority import TestAuthority

SCRAM = {"type": "scram-sha-512", "username": "alice", "passwordSecret": {"secretName": "alice"}}


class Secrets:
    """Secrets by name; `reads` counts the requests."""

    def __init__(self, **data: Mapping[str, bytes]) -> None:
        self.data = data
        self.reads = 0

    async def read(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        assert namespace == "default"
        self.reads += 1
        return self.data.get(name)


def cluster(**access: Any) -> BrokerCluster:
    found = parse_resource(bad_manifests.external(external=access))
    assert isinstance(found, BrokerCluster)
    return found


async def problem(secrets: Secrets, **access: Any) -> str:
    with pytest.raises(SecretUnusableError) as refused:
        await ExternalSecurity(secrets.read).of(cluster(**access))
    return str(refused.value)


async def test_a_cluster_without_access_is_plaintext_and_reads_nothing() -> None:
    found = parse_resource(bad_manifests.external())
    assert isinstance(found, BrokerCluster)
    assert await ExternalSecurity(no_secrets).of(found) is PLAINTEXT


async def test_certificates_passwords_and_tokens_come_from_secrets() -> None:
    authority = TestAuthority()
    pair = authority.issue("operator")
    secrets = Secrets(
        ca={"ca.crt": authority.pem.encode()},
        alice={"password": b"hidden"},
        mine={"tls.crt": pair.certificate.encode(), "tls.key": pair.key.encode()},
        jwt={"token": b"a.b.c"},
    )
    trusted = {"trustedCertificates": [{"secretName": "ca"}]}
    security = ExternalSecurity(secrets.read)
    assert await security.of(cluster(tls=trusted, authentication=SCRAM)) == ClientSecurity(
        TlsSettings(authority.pem), SaslSettings("SCRAM-SHA-512", "alice", "hidden")
    )
    by_pair = {"type": "tls", "certificateAndKey": {"secretName": "mine"}}
    assert await ExternalSecurity(secrets.read).of(cluster(tls=trusted, authentication=by_pair)) == ClientSecurity(
        TlsSettings(authority.pem, pair.certificate, pair.key)
    )
    by_token = {"type": "oauth", "accessToken": {"secretName": "jwt"}}
    assert await ExternalSecurity(secrets.read).of(cluster(authentication=by_token)) == ClientSecurity(
        sasl=SaslSettings("OAUTHBEARER", token="a.b.c")
    )


async def test_what_is_missing_or_unusable_is_a_sentence_without_the_value() -> None:
    assert await problem(Secrets(), authentication=SCRAM) == (
        "Secret alice, which external.authentication.passwordSecret names, does not exist: create it"
    )
    assert await problem(Secrets(alice={"pass": b"x"}), authentication=SCRAM) == (
        "Secret alice has no key password, which external.authentication.passwordSecret names: add it"
    )
    assert "begins or ends with a line break" in await problem(
        Secrets(alice={"password": b"hidden\n"}), authentication=SCRAM
    )
    assert "is not text" in await problem(Secrets(alice={"password": b"\xff"}), authentication=SCRAM)
    trusted = {"trustedCertificates": [{"secretName": "ca"}]}
    assert "not certificates in PEM" in await problem(Secrets(ca={"ca.crt": b"hidden"}), tls=trusted)


async def test_a_missing_right_names_the_value_of_the_chart() -> None:
    async def refuse(namespace: str, name: str) -> Mapping[str, bytes] | None:
        raise KubeError("forbidden", 403)

    with pytest.raises(SecretUnusableError, match=r"install the chart with rbac\.secrets=true"):
        await ExternalSecurity(refuse).of(cluster(authentication=SCRAM))


async def test_a_changed_secret_is_read_after_a_while_and_not_at_each_use(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = Secrets(alice={"password": b"one"})
    security, mine = ExternalSecurity(secrets.read), cluster(authentication=SCRAM)
    assert await security.of(mine) == await security.of(mine)
    assert secrets.reads == 1
    secrets.data["alice"] = {"password": b"two"}
    monkeypatch.setattr(external_security, "FRESH_S", 0.0)
    await asyncio.sleep(0)
    found = await security.of(mine)
    assert found.sasl == SaslSettings("SCRAM-SHA-512", "alice", "two")
