"""Certificates of listeners: checked, copied for brokers, renewed; and what is reported about bad ones."""

import base64
from typing import Any

import pytest

from sluicegate_operator.engine.listeners import ListenerReconciler
from sluicegate_operator.fleet.kafka.asking import BrokerPool
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import SECRET, Kind
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import Json, MemoryKube
from tests.support.manifests.bad_manifests import cluster, listener
from tests.support.processes.authority import IssuedPair, TestAuthority

SHOP = ("default", "shop")
STORE = "shop-external-listener-tls"


@pytest.fixture(scope="module")
def authority() -> TestAuthority:
    return TestAuthority()


def secret(name: str, **values: str) -> Json:
    data = {key.replace("_", "."): base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}


def of_pair(pair: IssuedPair, **more: str) -> Json:
    return secret("shop-tls", tls_crt=pair.certificate, tls_key=pair.key, **more)


class Listening:
    """One listener with TLS, and no broker yet."""

    def __init__(self, *objects: Json, kube: MemoryKube | None = None, **spec: Any) -> None:
        found = listener(tls={"secretName": "shop-tls"}, **spec)
        self.kube = kube or MemoryKube()
        for one in (cluster(), found, *objects):
            self.kube.put(one)
        self.context = Context(self.kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
        self.marked: set[str] = set()
        self.context.mark = lambda queue, _: self.marked.add(queue)
        self.context.pool_of = self._no_pool  # type: ignore[method-assign, assignment]
        self._reconciler = ListenerReconciler(self.context)

    async def _no_pool(self, *_: object) -> BrokerPool | None:
        return None

    async def reconcile(self) -> tuple[str, str]:
        """Return reason and message of Ready."""
        self.marked.clear()
        await self._reconciler.reconcile(SHOP)
        found = self.kube.condition("BrokerListener", "shop-external")
        return found["reason"], found["message"]

    @property
    def status(self) -> Json:
        found: Json = self.kube.take("BrokerListener", "shop-external")["status"]
        return found

    def store(self) -> dict[str, str]:
        data = self.kube.take("Secret", STORE)["data"]
        return {name: base64.b64decode(value).decode() for name, value in data.items()}


async def test_good_certificates_are_given_to_brokers_and_renewed_ones_too(authority: TestAuthority) -> None:
    first, second = authority.issue("shop"), authority.issue("shop")
    world = Listening(of_pair(first))
    assert (await world.reconcile())[0] == "BrokersStarting"
    assert world.status["tlsSecret"] == STORE
    assert world.status["protocol"] == "SSL"
    assert {"clusters", "rolls"} <= world.marked, "brokers mount it"
    assert world.store() == {"keystore.pem": first.key + first.certificate}
    [owner] = world.kube.take("Secret", STORE)["metadata"]["ownerReferences"]
    assert owner["kind"] == "BrokerListener"
    world.kube.put(of_pair(second))
    await world.reconcile()
    assert world.store() == {"keystore.pem": second.key + second.certificate}
    assert world.marked == set(), "nothing restarts"


async def test_other_line_ends_of_the_same_certificates_write_nothing(authority: TestAuthority) -> None:
    pair, ca = authority.issue("shop"), authority.pem
    world = Listening(of_pair(pair, ca_crt=ca), authentication={"type": "tls"})
    await world.reconcile()
    before = world.kube.take("Secret", STORE)
    assert set(world.store()) == {"keystore.pem", "truststore.pem"}
    for end in ("\r\n", " \n", "\n\n"):
        certificate, key, authorities = (text.replace("\n", end) for text in (pair.certificate, pair.key, ca))
        world.kube.put(secret("shop-tls", tls_crt=certificate, tls_key=key, ca_crt=authorities))
        await world.reconcile()
        assert world.kube.take("Secret", STORE) == before


async def test_comments_of_any_characters_are_no_mistake(authority: TestAuthority) -> None:
    pair, comment = authority.issue("shop"), "# Főtanúsítvány\n"
    world = Listening(of_pair(pair, ca_crt=comment + authority.pem), authentication={"type": "tls"})
    assert (await world.reconcile())[0] == "BrokersStarting"
    assert world.store()["truststore.pem"].endswith(authority.pem)


async def test_a_missing_secret_is_a_condition_and_nothing_waits_for_it_in_a_pod() -> None:
    world = Listening()
    reason, message = await world.reconcile()
    assert reason == "SecretMissing"
    assert message.startswith("Secret shop-tls, which tls.secretName names, does not exist: create it")
    assert not world.status.get("tlsSecret")


async def test_bad_certificates_are_not_given_to_brokers_which_keep_the_good_ones(authority: TestAuthority) -> None:
    good, other = authority.issue("shop"), authority.issue("shop")
    world = Listening(of_pair(good))
    await world.reconcile()
    for bad in (IssuedPair(good.certificate, other.key), IssuedPair("no certificate", good.key)):
        world.kube.put(of_pair(bad))
        reason, message = await world.reconcile()
        assert reason == "CertificateInvalid"
        assert "brokers continue with the certificates that they have" in message
        assert "PRIVATE" not in message
        assert world.store()["keystore.pem"] == good.key + good.certificate
        assert world.status["tlsSecret"] == STORE
    world.kube.remove("Secret", "shop-tls")
    assert (await world.reconcile())[0] == "SecretMissing"
    assert world.status["tlsSecret"] == STORE


async def test_client_certificates_need_authorities(authority: TestAuthority) -> None:
    pair = authority.issue("shop")
    world = Listening(of_pair(pair), authentication={"type": "tls"})
    reason, message = await world.reconcile()
    assert (reason, message) == (
        "CertificateInvalid",
        "Secret shop-tls has no key ca.crt: add it, as cert-manager does",
    )
    world.kube.put(of_pair(pair, ca_crt=authority.pem))
    await world.reconcile()
    assert world.store()["truststore.pem"] == authority.pem


async def test_a_missing_right_is_named_with_the_value_of_the_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Listening()

    get = world.kube.get

    async def refuse(kind: Kind, namespace: str | None, name: str) -> Json | None:
        if kind == SECRET:
            raise KubeError("forbidden", 403)
        return await get(kind, namespace, name)

    monkeypatch.setattr(world.kube, "get", refuse)
    reason, message = await world.reconcile()
    assert reason == "SecretUnreadable"
    assert "install the chart with rbac.secrets=true" in message


async def test_a_paused_cluster_keeps_its_certificates(authority: TestAuthority) -> None:
    world = Listening(of_pair(authority.issue("shop")))
    await world.reconcile()
    before = world.store()
    world.kube.put(cluster(paused=True))
    world.kube.put(of_pair(authority.issue("shop")))
    await world.reconcile()
    assert world.store() == before
    assert world.status["tlsSecret"] == STORE
