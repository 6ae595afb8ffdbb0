"""Nodes on one machine while several queues act on them; tests/contract/test_fleets.py has what all fleets do."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluicegate_operator.api import BrokerCluster
from sluicegate_operator.api.manifests import read_stored
from sluicegate_operator.fleet.kafka.controllers import ControllerPlace, ControllerView
from sluicegate_operator.fleet.local.local import LocalFleet
from sluicegate_operator.fleet.local.local_data import DataDir
from sluicegate_operator.kube.http.errors import KubeConflictError
from tests.support.manifests.bad_manifests import cluster
from tests.support.worlds.fleet_worlds import PlayedChild


class SlowChild(PlayedChild):
    """Ends when `ends` is set."""

    made: list["SlowChild"] = []
    ends = asyncio.Event()

    def start(self) -> None:
        super().start()
        self.made.append(self)

    async def stop(self) -> None:
        await self.ends.wait()
        await super().stop()


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalFleet]:
    async def view(places: tuple[ControllerPlace, ...]) -> ControllerView:
        return ControllerView()

    monkeypatch.setattr(SlowChild, "made", [])
    monkeypatch.setattr(SlowChild, "ends", asyncio.Event())
    monkeypatch.setattr("sluicegate_operator.fleet.local.node_processes.Child", SlowChild)
    monkeypatch.setattr("sluicegate_operator.fleet.local.node_processes.controller_view", view)
    with DataDir(tmp_path) as data:
        yield LocalFleet(data, lambda _: None, lambda: None)


def of(namespace: str = "default", brokers: int = 2) -> BrokerCluster:
    document = cluster(brokers={"replicas": brokers, "storage": {"size": "1Gi"}})
    found = read_stored({**document, "metadata": {"name": "shop", "namespace": namespace}})
    assert isinstance(found, BrokerCluster)
    return found


async def test_a_node_that_restarts_while_its_cluster_is_removed_is_not_started_again(fleet: LocalFleet) -> None:
    await fleet.apply(of(), ())
    seen = await fleet.nodes(of(), ())
    assert seen is not None
    restart = asyncio.create_task(fleet.restart(of(), seen, "broker 0 of shop"))
    await asyncio.sleep(0)
    removal = asyncio.create_task(fleet.remove("default", "shop"))
    await asyncio.sleep(0)
    SlowChild.ends.set()
    await asyncio.gather(restart, removal)
    assert [child.pid for child in SlowChild.made] == [None] * 3
    assert fleet.describe("shop") == []


async def test_a_node_that_restarts_gets_what_was_applied_meanwhile(fleet: LocalFleet) -> None:
    await fleet.apply(of(brokers=1), ())
    seen = await fleet.nodes(of(), ())
    assert seen is not None
    restart = asyncio.create_task(fleet.restart(of(), seen, "broker 0 of shop"))
    await asyncio.sleep(0)
    changed = cluster(brokers={"replicas": 1, "storage": {"size": "1Gi"}}, config={"num.partitions": "7"})
    found = read_stored({**changed, "metadata": {"name": "shop", "namespace": "default"}})
    assert isinstance(found, BrokerCluster)
    await fleet.apply(found, ())
    SlowChild.ends.set()
    await restart
    seen = await fleet.nodes(found, ())
    assert seen is not None
    assert [node.name for node in seen.nodes if node.reasons] == ["controller 1000 of shop"]


async def test_of_two_clusters_with_one_name_only_the_first_has_nodes(fleet: LocalFleet) -> None:
    await fleet.apply(of(), ())
    with pytest.raises(KubeConflictError, match="of namespace default is still running"):
        await fleet.apply(of("other"), ())
    assert await fleet.nodes(of("other"), ()) is None
    assert await fleet.broker_addresses(of("other")) == ()
    SlowChild.ends.set()
    await fleet.remove("other", "shop")
    assert len(fleet.describe("shop")) == 3
    await fleet.remove("default", "shop")
    await fleet.apply(of("other"), ())
    assert len(await fleet.broker_addresses(of("other"))) == 2
