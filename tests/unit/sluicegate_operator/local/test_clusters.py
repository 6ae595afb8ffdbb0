"""The actions of `sluicegate up` on the processes of a cluster."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kafka_bytes.properties import parse_properties
from sluicegate_operator.api import Manifests
from sluicegate_operator.api.manifests import read_stored
from sluicegate_operator.engine.context.context import now
from sluicegate_operator.fleet.local.local_data import DataDir
from sluicegate_operator.kube.certificates.new_certificate import new_pair
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.local.clusters import LocalClusters
from sluicegate_operator.local.landers import LocalLanders
from sluicegate_operator.local.limit_changes import LimitChanges
from sluicegate_operator.local.secrets import write_private
from tests.support.manifests.bad_manifests import cluster, listener
from tests.support.worlds.fleet_worlds import SHOP, Processes


def _said(_: str) -> None:
    """Do nothing with lines of the terminal."""


@pytest.mark.parametrize("wanted", [1, 3])
async def test_no_process_starts_or_stops_while_the_cluster_is_paused(
    wanted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DataDir(tmp_path) as data:
        world = Processes(data, monkeypatch)
        clusters = LocalClusters(world.context, LocalLanders(data, _said), LimitChanges(_said), _said)
        clusters.chosen = {SHOP}
        await world.put(brokers={"replicas": 2, "storage": {"size": "1Gi"}})
        world.settle()
        before = world.started()

        async def look(**spec: Any) -> list[int]:
            document = cluster(brokers={"replicas": wanted, "storage": {"size": "1Gi"}}, **spec)
            document["metadata"]["namespace"] = "default"
            world.objects.apply(Manifests.of([read_stored(document)]), now())
            await clusters.reconcile(SHOP)
            found = (await world.context.gather(SHOP, ())).cluster
            assert found is not None
            return [running.node.key[1] for running in world.fleet.brokers(found)]

        assert await look(paused=True) == [0, 1]
        assert world.started() == before
        # Only a decision of planning.scale removes brokers.
        assert await look() == list(range(max(2, wanted)))
        await world.context.aclose()


async def test_brokers_start_with_the_certificates_of_their_listeners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DataDir(tmp_path) as data:
        world = Processes(data, monkeypatch)
        monkeypatch.setattr("sluicegate_operator.fleet.local.node_processes.READY_TIMEOUT_S", 0.0)
        pair = new_pair(["127.0.0.1"], datetime.now(UTC), 90)
        for name, value in (("tls.crt", pair.certificate), ("tls.key", pair.key)):
            write_private(data.secrets_dir / "default" / "own-tls" / name, value.decode())
        clusters = LocalClusters(world.context, LocalLanders(data, _said), LimitChanges(_said), _said)
        clusters.chosen = {SHOP}
        secured = listener("shop-secure", tls={"secretName": "own-tls"})
        secured["metadata"]["namespace"] = "default"
        shop = cluster(brokers={"replicas": 1, "storage": {"size": "1Gi"}})
        shop["metadata"]["namespace"] = "default"
        world.objects.apply(Manifests.of([read_stored(shop), read_stored(secured)]), now())
        await clusters.reconcile(SHOP)

        properties = parse_properties((data.node_dir("shop", 0) / "server.properties").read_text(), "broker")
        keystore = data.secrets_dir / "default" / "shop-secure-listener-tls" / "keystore.pem"
        assert properties["listener.name.external.ssl.keystore.location"] == str(keystore)
        assert keystore.read_text() == f"{pair.key.decode()}{pair.certificate.decode()}"
        assert "EXTERNAL:SSL" in properties["listener.security.protocol.map"]
        with pytest.raises(KubeError, match=r"write each key into a file of .*secrets/default/other"):
            await world.context.read_secret("default", "other")
        await world.context.aclose()
