"""The files with settings of clients: written for each user, printed once, and removed with their user."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluicegate_operator.api import BrokerListener, KafkaUser, Manifests
from sluicegate_operator.api.manifests import read_stored
from sluicegate_operator.api.models.broker_listener import BrokerListenerStatus
from sluicegate_operator.engine.context.context import now
from sluicegate_operator.fleet.local.local_data import DataDir
from sluicegate_operator.kube.http.kinds import BROKER_LISTENER, KAFKA_USER
from sluicegate_operator.local.clients import LocalClients
from sluicegate_operator.local.secrets import LocalSecrets, write_private
from sluicegate_operator.planning.status.conditions import conditions, ready
from sluicegate_operator.resources.secrets.user_secret import user_secret
from tests.support.manifests.bad_manifests import cluster, listener
from tests.support.worlds.fleet_worlds import SHOP, Processes

TLS = {"secretName": "own-tls"}
SCRAM = {"type": "scram-sha-512"}


class Laptop:
    """A cluster with one listener, whose Ready condition is True after `apply`."""

    def __init__(self, data: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = Processes(data, monkeypatch)
        self.secrets = LocalSecrets(data.secrets_dir)
        self.said: list[str] = []
        self.folder = data.path / "shop" / "clients" / "EXTERNAL"
        self._clients = LocalClients(data, self.world.context, self.secrets, self.said.append)
        write_private(data.secrets_dir / "default" / "own-tls" / "ca.crt", "authority")

    async def apply(self, users: tuple[str, ...] = (), **spec: Any) -> set[str]:
        """Apply the manifests and make passwords. Return the files below the listener's folder."""
        head = {"apiVersion": "sluicegate.dev/v1alpha1", "kind": "KafkaUser"}
        of_shop = {"clusterRef": {"name": "shop"}, "authentication": SCRAM}
        documents = [cluster(brokers={"replicas": 1, "storage": {"size": "1Gi"}}), listener(**spec)]
        documents += [{**head, "metadata": {"name": name}, "spec": of_shop} for name in users]
        for document in documents:
            document["metadata"]["namespace"] = "default"
        objects = self.world.objects
        objects.apply(Manifests.of([read_stored(document) for document in documents]), now())
        snapshot = objects.snapshot(SHOP, [BROKER_LISTENER, KAFKA_USER])
        for user in snapshot.of_kind(KafkaUser):
            self.secrets.apply(user_secret(user, f"quiet-{user.name}", ""))
        [found] = snapshot.of_kind(BrokerListener)
        told = conditions(found, found.status, ready("Open", "open").findings, now())
        status = BrokerListenerStatus(conditions=told, tls_secret="own-tls")
        objects.write_status(found, status, ())
        assert snapshot.cluster is not None
        await self.world.fleet.apply(snapshot.cluster, objects.snapshot(SHOP, [BROKER_LISTENER]).listeners)
        self.world.context.running.add(SHOP)
        await self._clients.write(SHOP)
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()}


@pytest.fixture
def laptop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Laptop]:
    with DataDir(tmp_path) as data:
        yield Laptop(data, monkeypatch)


async def test_each_user_has_settings_as_long_as_it_exists(laptop: Laptop) -> None:
    both = await laptop.apply(("billing", "crm"), tls=TLS, authentication=SCRAM)
    assert len(both) == 6
    text = (laptop.folder / "crm" / "librdkafka.properties").read_text()
    assert "sasl.username=crm\nsasl.password=quiet-crm\n" in text
    printed = "\n".join(laptop.said)
    assert "settings of clients of listener EXTERNAL" in printed
    assert "quiet" not in printed

    lines = len(laptop.said)
    left = await laptop.apply(("billing",), tls=TLS, authentication=SCRAM)
    assert left == {"billing/client.properties", "billing/librdkafka.properties", "billing/settings.py"}
    assert len(laptop.said) == lines


async def test_tls_alone_needs_no_user(laptop: Laptop) -> None:
    assert await laptop.apply(tls=TLS) == {"client.properties", "librdkafka.properties", "settings.py"}
    assert "own-tls/ca.crt" in (laptop.folder / "client.properties").read_text()


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"tls": TLS, "authentication": {"type": "tls"}},
        {"tls": TLS, "authentication": {"type": "oauth", "jwksEndpointUri": "https://keys.example"}},
    ],
)
async def test_other_listeners_have_none(laptop: Laptop, spec: dict[str, Any]) -> None:
    assert await laptop.apply(("billing",), **spec) == set()
    assert laptop.said == []
