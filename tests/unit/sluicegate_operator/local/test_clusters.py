"""The actions of `sluicegate up` on the processes of a cluster."""

from pathlib import Path
from typing import Any

import pytest

from sluicegate_operator.api import Manifests
from sluicegate_operator.api.manifests import read_stored
from sluicegate_operator.engine.context import now
from sluicegate_operator.fleet.local.local_data import DataDir
from sluicegate_operator.local.clusters import LocalClusters
from sluicegate_operator.local.landers import LocalLanders
from sluicegate_operator.local.limit_changes import LimitChanges
from tests.support.manifests.bad_manifests import cluster
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
