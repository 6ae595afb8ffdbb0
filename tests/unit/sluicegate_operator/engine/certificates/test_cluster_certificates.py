"""The Secrets of a cluster's own certificates: made, renewed by what nodes report, and refused."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, parse_resource
from sluicegate_operator.api.models.parts.cluster_ca import FORCE_RENEW
from sluicegate_operator.engine.certificates import cluster_certificates
from sluicegate_operator.engine.certificates.cluster_certificates import ClusterCertificates
from sluicegate_operator.fleet.node_security import NodeSecurity, NoNodeSecurityError
from sluicegate_operator.kube.certificates.authorities import authority_certificate, certificates_in, digest, issued_by
from sluicegate_operator.kube.certificates.cluster_certificates import made
from sluicegate_operator.kube.certificates.cluster_orders import CertificateOrder, PemPair
from sluicegate_operator.kube.certificates.tls_pair import TlsPair
from sluicegate_operator.kube.http.errors import KubeError, KubeUnavailableError
from sluicegate_operator.planning.certificates.cluster_ca_status import CertificatesSeen, certificates_finding
from sluicegate_operator.planning.certificates.renewal import STEP_S_MIN, NodeInForce
from sluicegate_operator.planning.layout.node_certificates import certificate_names
from tests.support.fakes.kube.memory_secrets import MemorySecrets
from tests.support.manifests.bad_manifests import cluster
from tests.support.processes.authority import TestAuthority

BEGAN_S = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
DAY_S = 86_400.0
AUTHORITY, NODES = "shop-cluster-ca", "shop-cluster-tls"


class World:
    """A cluster with spec.clusterCa, its Secrets, its nodes and the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, secrets: MemorySecrets | None = None, **ca: Any) -> None:
        monkeypatch.setattr(cluster_certificates, "FRESH_S", -1.0)
        self.secrets = secrets or MemorySecrets()
        self.security = NodeSecurity(self.secrets.read_secret)
        self.now_s = BEGAN_S
        self.nodes: list[NodeInForce] = []
        self.ca: dict[str, Any] = ca
        self.annotations: dict[str, str] = {}
        self.made = 0
        self.restart()

    def restart(self) -> None:
        """Start another operator, which knows nothing yet."""
        self._certificates = ClusterCertificates(self.secrets, self.security, self._make, lambda: self.now_s)

    async def _make(self, order: CertificateOrder) -> Sequence[PemPair]:
        self.made += 1
        authority = None if order.authority is None else {"certificate": order.authority.certificate}
        if authority is not None and order.authority is not None:
            authority["key"] = order.authority.key
        leaves = [{"subject": leaf.subject, "hosts": leaf.hosts} for leaf in order.leaves]
        asked = {"days": order.days, "name": f"{order.name}-{self.made}", "authority": authority, "leaves": leaves}
        return [PemPair(**pair) for pair in made(asked, datetime.fromtimestamp(self.now_s, UTC))]

    @property
    def cluster(self) -> BrokerCluster:
        document = cluster(clusterCa=self.ca)
        document["metadata"] |= {"uid": "uid-of-shop", "annotations": self.annotations}
        found = parse_resource(document)
        assert isinstance(found, BrokerCluster)
        return found

    async def keep(self) -> CertificatesSeen:
        async def ask() -> Sequence[NodeInForce]:
            return self.nodes

        found = await self._certificates.keep(self.cluster, ask)
        assert found is not None
        return found

    async def keep_until_settled(self) -> None:
        """Let nodes use each version, and time pass."""
        for _ in range(10):
            if (await self.keep()).settled:
                return
            self.follow()
            self.now_s += STEP_S_MIN
        raise AssertionError("the renewal does not end")

    def follow(self, *names: str) -> None:
        self.nodes = [NodeInForce(name, frozenset({self.version})) for name in names or ("a", "b")]

    def text(self, secret: str, key: str) -> str:
        return self.secrets.stored[secret].data[key].decode()

    @property
    def version(self) -> tuple[str, frozenset[str]]:
        trusted = map(digest, certificates_in(self.text(NODES, "truststore.pem")))
        return digest("".join(certificates_in(self.text(NODES, "keystore.pem")))), frozenset(trusted)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


async def test_a_new_cluster_gets_everything_at_once(world: World) -> None:
    seen = await world.keep()
    assert seen.settled
    assert seen.certificate_ends_s == seen.authority_ends_s == BEGAN_S + 365 * DAY_S
    assert world.secrets.written == [AUTHORITY, NODES]
    authority = authority_certificate(world.text(AUTHORITY, "tls.crt"))
    keystore = world.text(NODES, "keystore.pem").encode()
    certificate = "".join(certificates_in(keystore.decode())).encode()
    issued = issued_by(authority, TlsPair(certificate, keystore), "shop-brokers.default.svc")
    assert issued is not None
    assert issued.names == set(certificate_names(world.cluster))
    assert issued.subject == ("sluicegate.dev", "default", "shop-nodes")
    assert world.text(AUTHORITY, "tls.key") not in "".join(map(str, world.secrets.stored[NODES].data.values()))
    security = await world.security.of(world.cluster)
    assert (security.protocol, security.tls and security.tls.server_name) == ("SSL", "shop-brokers.default.svc")
    security.check()
    assert (await world.keep()).settled
    assert world.made == 2


async def test_the_authority_is_renewed_in_three_steps_and_an_operator_may_end_between_them(world: World) -> None:
    await world.keep()
    world.follow()
    (certificate, before) = world.version
    world.now_s += 340 * DAY_S
    assert (await world.keep()).under_way
    assert world.version[0] == certificate
    assert world.version[1] > before
    world.restart()
    waiting = await world.keep()
    assert [node.name for node in waiting.waiting] == ["a", "b"]
    assert certificates_finding(waiting).reason == "NodesBehind"
    world.follow()
    world.now_s += STEP_S_MIN - 1
    assert world.version[0] == certificate, "a step has a least time"
    assert not (await world.keep()).waiting
    world.now_s += 1
    await world.keep()
    assert world.version[0] != certificate
    assert world.version[1] > before
    world.restart()
    await world.keep_until_settled()
    assert len(world.version[1]) == 1
    assert not world.version[1] & before
    assert world.text(AUTHORITY, "ca.crt") == world.text(AUTHORITY, "tls.crt") == world.text(NODES, "truststore.pem")
    assert (await world.keep()).authority_ends_s == pytest.approx(BEGAN_S + 705 * DAY_S, abs=DAY_S)


async def test_each_value_of_the_annotation_renews_once(world: World) -> None:
    await world.keep()
    world.follow()
    first = world.text(AUTHORITY, "tls.crt")
    world.annotations = {FORCE_RENEW: "once"}
    await world.keep_until_settled()
    second, written = world.text(AUTHORITY, "tls.crt"), len(world.secrets.written)
    assert second != first
    world.restart()
    assert (await world.keep()).settled
    assert len(world.secrets.written) == written
    world.annotations = {FORCE_RENEW: "twice"}
    await world.keep_until_settled()
    assert world.text(AUTHORITY, "tls.crt") != second


async def test_a_silent_node_delays_a_renewal_until_the_end_is_near(world: World) -> None:
    await world.keep()
    certificate, _ = world.version
    world.now_s += 340 * DAY_S
    await world.keep()
    world.nodes = [NodeInForce("c", silence="no answer within 2 s")]
    world.now_s += 21 * DAY_S
    seen = await world.keep()
    assert "c (no answer within 2 s)" in certificates_finding(seen).message
    assert world.version[0] == certificate
    world.now_s += 2 * DAY_S
    await world.keep()
    assert world.version[0] != certificate


async def test_an_authority_of_the_user_issues_and_its_successor_is_overlapped(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, generateCertificateAuthority=False, secretName="my-ca")
    seen = await world.keep()
    assert (seen.usable, seen.reason) == (False, "SecretMissing")
    first, second = await _authority_of(world), await _authority_of(world)
    world.secrets.put("my-ca", tls_crt=first.certificate, tls_key=second.key)
    assert (await world.keep()).reason == "CertificateInvalid"
    pair = TestAuthority().issue("no-authority")
    world.secrets.put("my-ca", tls_crt=pair.certificate, tls_key=pair.key)
    assert "not the one of an authority" in (await world.keep()).problem
    world.secrets.put("my-ca", tls_crt=first.certificate.replace("\nM", "\nőM", 1), tls_key=first.key)
    assert "its certificate cannot be read" in (await world.keep()).problem
    world.secrets.put("my-ca", tls_crt=f"# ő\n{first.certificate}", tls_key=first.key)
    assert (await world.keep()).settled
    assert world.secrets.written == [NODES]
    world.follow()
    world.secrets.put("my-ca", tls_crt=second.certificate, tls_key=second.key)
    await world.keep()
    assert world.version[1] == {digest(first.certificate), digest(second.certificate)}
    await world.keep_until_settled()
    assert world.version[1] == {digest(second.certificate)}
    del world.secrets.stored["my-ca"]
    lost = await world.keep()
    assert (lost.usable, lost.reason) == (True, "SecretMissing")


async def _authority_of(world: World) -> PemPair:
    [pair] = await world._make(CertificateOrder(365, "my-ca"))
    return pair


async def test_a_secret_of_another_client_is_neither_used_nor_changed(world: World) -> None:
    world.secrets.put(NODES, keystore_pem="theirs")
    seen = await world.keep()
    assert (seen.usable, seen.reason) == (False, "NameTaken")
    assert world.secrets.stored[NODES].data == {"keystore.pem": b"theirs"}


async def test_without_the_right_the_condition_says_so_and_nodes_keep_what_they_have(world: World) -> None:
    world.secrets.denied = True
    seen = await world.keep()
    assert (seen.usable, seen.reason) == (False, "SecretUnreadable")
    assert "install the chart with rbac.secrets=true" in seen.problem
    with pytest.raises(NoNodeSecurityError):
        await world.security.of(world.cluster)
    world.secrets.denied = False
    assert (await world.keep()).settled


async def test_a_deleted_secret_of_nodes_is_issued_by_the_same_authority(world: World) -> None:
    await world.keep()
    _, trusted = world.version
    del world.secrets.stored[NODES]
    assert (await world.keep()).settled
    assert world.version[1] == trusted
    world.secrets.stored[NODES] = world.secrets.stored[AUTHORITY]
    assert (await world.keep()).settled, "a Secret that another client has changed is written anew"
    assert world.version[1] == trusted


async def test_a_refused_write_changes_nothing_else(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.keep()
    world.annotations = {FORCE_RENEW: "once"}
    before = dict(world.secrets.stored)

    async def refuse(_: object) -> None:
        raise KubeError("admission webhook denied the request", 400)

    monkeypatch.setattr(world.secrets, "apply_secret", refuse)
    seen = await world.keep()
    assert (seen.usable, seen.reason) == (True, "SecretUnreadable")
    assert "admission webhook denied the request" in seen.problem
    assert world.secrets.stored == before


async def test_a_refusal_that_may_pass_is_retried_by_the_queue(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> None:
        raise KubeUnavailableError("no answer")

    monkeypatch.setattr(world.secrets, "find_secret", away)
    with pytest.raises(KubeUnavailableError):
        await world.keep()
