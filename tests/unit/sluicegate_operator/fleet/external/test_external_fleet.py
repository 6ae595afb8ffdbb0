"""External brokers: the address of each, and no requests to another cluster's brokers."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from kio.schema.describe_cluster.v0.response import DescribeClusterBroker, DescribeClusterResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId
from kio.static.primitive import i32

from sluicegate_operator.api import BrokerCluster, parse_resource
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.external import external_fleet
from sluicegate_operator.fleet.external.external_fleet import ExternalFleet
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.planning.external.external_status import ConfigProgress, external_status
from tests.support.fakes.scripted_peer import NO_THROTTLE, ScriptedPeer
from tests.support.manifests import bad_manifests

pytestmark = pytest.mark.virtual_time


def broker_of(cluster_id: str) -> ScriptedPeer:
    peer = ScriptedPeer()
    brokers = tuple(
        DescribeClusterBroker(broker_id=BrokerId(number), host=f"b{number}", port=i32(9092), rack=None)
        for number in (0, 1)
    )
    peer.answer(
        DescribeClusterResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            cluster_id=cluster_id,
            controller_id=BrokerId(0),
            brokers=brokers,
        )
    )
    return peer


async def test_no_request_is_sent_to_an_address_of_another_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both brokers are advertised by a name that resolves to another host for the operator."""
    peers = {"b0": broker_of("c"), "b1": broker_of("d")}

    async def connect(address: tuple[str, int], factory: Callable[[], asyncio.Protocol]) -> object:
        return await peers[address[0]].connect(address, factory)

    monkeypatch.setattr(external_fleet, "AdminClient", partial(AdminClient, connect=connect))
    document = bad_manifests.external(bootstrapServers=["b0:9092"]) | {"status": {"clusterId": "c"}}
    cluster = parse_resource(document)
    assert isinstance(cluster, BrokerCluster)
    fleet = ExternalFleet()
    found = await fleet.broker_addresses(cluster)
    await fleet.aclose()
    assert found == (BrokerAddress(0, "b0", 9092), BrokerAddress(1, "b1", 9092))
    assert [broker.barred for broker in found] == [
        "",
        "a broker of the cluster with cluster.id d answers at this address",
    ]


async def test_only_the_older_of_two_objects_that_name_one_cluster_governs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = broker_of("c")

    monkeypatch.setattr(external_fleet, "AdminClient", partial(AdminClient, connect=peer.connect))
    younger, older = governing("younger", "2026-02-01T00:00:00Z"), governing("older", "2026-01-01T00:00:00Z")
    there = [younger, older]
    fleet = ExternalFleet(siblings=lambda: there)
    assert await fleet.broker_addresses(younger) == ()
    assert len(await fleet.broker_addresses(older)) == 2
    seen = await fleet.observe(younger)
    assert "BrokerCluster default/older already governs the cluster with cluster.id c" in seen.governed
    status = external_status(younger, seen, ConfigProgress(), datetime(2026, 3, 1, tzinfo=UTC))
    ready = status.condition("Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "GovernedByAnother")
    there.remove(older)
    await asyncio.sleep(2 * external_fleet.FRESH_S)
    assert len(await fleet.broker_addresses(younger)) == 2, "it takes over"
    await fleet.aclose()


async def test_an_older_cluster_that_cannot_be_read_still_governs(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = broker_of("c")
    monkeypatch.setattr(external_fleet, "AdminClient", partial(AdminClient, connect=peer.connect))
    younger = governing("younger", "2026-02-01T00:00:00Z")
    meta = {"name": "older", "namespace": "default", "uid": "older", "creationTimestamp": "2026-01-01T00:00:00Z"}
    older = {"metadata": meta, "spec": {"runtime": "External", "resyncSeconds": "often"}, "status": {"clusterId": "c"}}
    there: list[BrokerCluster | dict[str, Any]] = [younger, older]
    fleet = ExternalFleet(siblings=lambda: there)
    assert await fleet.broker_addresses(younger) == ()
    assert "BrokerCluster default/older already governs" in (await fleet.observe(younger)).governed
    for other in (
        older | {"status": {"clusterId": "another"}},
        older | {"spec": "text"},
        older | {"metadata": meta | {"creationTimestamp": "2026-03-01T00:00:00Z"}},
        older | {"metadata": meta | {"deletionTimestamp": "2026-03-01T00:00:00Z"}},
    ):
        there[1] = other
        await asyncio.sleep(2 * external_fleet.FRESH_S)
        assert len(await fleet.broker_addresses(younger)) == 2
    await fleet.aclose()


def governing(name: str, created: str) -> BrokerCluster:
    document = bad_manifests.external(bootstrapServers=["b0:9092"]) | {"status": {"clusterId": "c"}}
    document["metadata"] = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": created}
    cluster = parse_resource(document)
    assert isinstance(cluster, BrokerCluster)
    return cluster
