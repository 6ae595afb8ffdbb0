"""The properties of a fleet that the engine relies on, for both fleets: pods, and processes on one machine."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluicegate_operator.engine.context.snapshot import Snapshot, Unreadable
from sluicegate_operator.engine.listeners import ListenerReconciler
from sluicegate_operator.engine.racks import RackReconciler
from sluicegate_operator.engine.rolls import RollReconciler
from sluicegate_operator.fleet.kafka.asking import BrokerPool
from sluicegate_operator.fleet.pods.rolls import Partitions
from sluicegate_operator.fleet.protocol import Fleet, NodesSeen
from sluicegate_operator.kube.http.errors import KubeConflictError
from sluicegate_operator.kube.http.kinds import BROKER_LISTENER
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.planning.registrations.racks import RacksPlan
from sluicegate_operator.planning.rolls.roll import LISTENER_UNREADABLE, PartitionState, WaitForNodes, WaitReason
from sluicegate_operator.planning.rolls.scale import ScaleReason
from tests.support.manifests.bad_manifests import listener
from tests.support.worlds.fleet_worlds import CONTROLLER, SHOP, FleetWorld, Pods, fleet_world, shop

CHANGED = {"config": {"connections.max.idle.ms": "590000"}}
LOOKS_MAX = 30


@pytest.fixture(params=["pods", "processes"])
async def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[FleetWorld]:
    async with fleet_world(request.param, tmp_path, monkeypatch) as made:

        async def partitions(pool: BrokerPool | None, overview: object) -> Partitions:
            held = tuple(broker_id for broker_id, replicas in made.replicas.items() if replicas)
            return Partitions((PartitionState("orders", 0, held[0], held, held),) if held else ())

        monkeypatch.setattr("sluicegate_operator.engine.rolls.read_partitions", partitions)
        yield made


def brokers(count: int, **fields: Any) -> dict[str, Any]:
    return {"brokers": {"replicas": count, "storage": {"size": "1Gi"}, **fields}}


async def started(world: FleetWorld, count: int = 3) -> Fleet:
    """A fleet with so many ready brokers."""
    await world.put(**brokers(count))
    world.settle()
    return world.context.fleet


async def look(world: FleetWorld) -> NodesSeen:
    seen = await world.context.fleet.nodes(await shop(world), ())
    assert seen is not None
    return seen


async def unchanged() -> None:
    """Do nothing: the decision is still valid."""


async def test_before_there_are_nodes_none_is_seen(world: FleetWorld) -> None:
    await world.put(**brokers(3), paused=True)
    assert await world.context.fleet.nodes(await shop(world), ()) is None
    assert await world.context.fleet.broker_addresses(await shop(world)) == ()


async def test_all_nodes_are_seen_with_their_brokers_addresses(world: FleetWorld) -> None:
    fleet = await started(world)
    seen = await look(world)
    assert sorted((node.role, node.node_id, node.ready) for node in seen.nodes) == [
        (Role.BROKER, 0, True),
        (Role.BROKER, 1, True),
        (Role.BROKER, 2, True),
        (Role.CONTROLLER, CONTROLLER, True),
    ]
    assert not any(node.reasons for node in seen.nodes)
    assert seen.incarnations.keys() == {node.name for node in seen.nodes}
    assert (seen.broker_count, sorted(seen.broker_ids)) == (3, [0, 1, 2])
    assert seen.view.overview is not None
    assert [broker.broker_id for broker in seen.addresses] == [0, 1, 2]
    assert await fleet.broker_addresses(await shop(world)) == seen.addresses


async def test_a_roll_takes_one_node_at_a_time_and_the_controller_last(world: FleetWorld) -> None:
    await started(world)
    rolls, before = RollReconciler(world.context), len(world.started())
    await world.put(**brokers(3), **CHANGED)
    for _ in range(LOOKS_MAX):
        await rolls.reconcile(SHOP)
        assert len(world.down()) <= 1
        if world.context.progress[SHOP].rolling is False:
            break
        world.settle()
    assert [node_id for node_id, _ in world.started()[before:]] == [0, 1, 2, CONTROLLER]
    assert world.context.progress[SHOP].rolling is False
    assert not any(node.reasons for node in (await look(world)).nodes)


async def test_a_node_that_is_not_back_holds_up_the_roll(world: FleetWorld) -> None:
    await started(world)
    rolls, before = RollReconciler(world.context), len(world.started())
    await world.put(**brokers(3), **CHANGED)
    for _ in range(4):
        await rolls.reconcile(SHOP)
    assert world.down() == {0}
    world.settle()
    assert {node_id for node_id, _ in world.started()[before:]} == {0}
    step = world.context.progress[SHOP].roll
    assert isinstance(step, WaitForNodes)
    assert step.reason in (WaitReason.NODE_RESTARTING, WaitReason.NODE_NOT_READY)


async def test_without_a_controllers_view_nothing_is_restarted(world: FleetWorld) -> None:
    await started(world)
    world.says = False
    before = world.started()
    await world.put(**brokers(3), **CHANGED)
    await RollReconciler(world.context).reconcile(SHOP)
    assert world.started() == before
    step = world.context.progress[SHOP].roll
    assert isinstance(step, WaitForNodes)
    assert step.reason is WaitReason.CONTROLLER_UNKNOWN


@pytest.mark.parametrize("spec", [{"paused": True}, {"rollout": {"paused": True}}], ids=["cluster", "rollout"])
async def test_nothing_is_restarted_while_paused(world: FleetWorld, spec: dict[str, Any]) -> None:
    await started(world)
    before = world.started()
    await world.put(**brokers(3), **CHANGED)
    await world.put(**brokers(3), **CHANGED, **spec)
    await RollReconciler(world.context).reconcile(SHOP)
    assert (world.started(), world.down()) == (before, set())


async def test_nothing_is_restarted_while_a_listener_cannot_be_read(
    world: FleetWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await started(world)
    before, gather = world.started(), world.context.gather
    await world.put(**brokers(3), **CHANGED)

    async def unreadable(*arguments: Any, **options: Any) -> Snapshot:
        body = listener() | {"spec": {"port": "9094"}}
        return replace(await gather(*arguments, **options), unreadable=(Unreadable(BROKER_LISTENER, body, "odd"),))

    monkeypatch.setattr(world.context, "gather", unreadable)
    await RollReconciler(world.context).reconcile(SHOP)
    assert (world.started(), world.down()) == (before, set())
    assert world.context.progress[SHOP].no_roll == LISTENER_UNREADABLE


async def test_a_node_that_is_another_one_by_now_is_not_restarted(world: FleetWorld) -> None:
    fleet = await started(world)
    seen = await look(world)
    await fleet.check(await shop(world), seen)
    world.replace(1)
    before = world.started()
    (name,) = (node.name for node in seen.nodes if node.node_id == 1)
    with pytest.raises(KubeConflictError):
        await fleet.check(await shop(world), seen)
    with pytest.raises(KubeConflictError):
        await fleet.restart(await shop(world), seen, name)
    assert (world.started(), world.down()) == (before, set())


async def test_a_broker_without_replicas_is_taken_away_and_one_with_replicas_stays(world: FleetWorld) -> None:
    await started(world)
    rolls = RollReconciler(world.context)
    world.replicas = {0: 1, 2: 1}
    await world.put(**brokers(2))
    await rolls.reconcile(SHOP)
    world.settle()
    assert (await look(world)).broker_count == 3
    scale = world.context.progress[SHOP].scale
    assert scale is not None
    assert scale.reason is ScaleReason.REPLICAS_REMAIN
    world.replicas = {0: 1}
    await rolls.reconcile(SHOP)
    world.settle()
    seen = await look(world)
    assert (seen.broker_count, sorted(seen.broker_ids)) == (2, [0, 1])


async def test_more_brokers_are_started_without_a_roll(world: FleetWorld) -> None:
    await started(world, 1)
    await world.put(**brokers(3))
    world.settle()
    await RollReconciler(world.context).reconcile(SHOP)
    assert sorted((await look(world)).broker_ids) == [0, 1, 2]
    assert [node_id for node_id, _ in world.started()].count(0) == 1


@pytest.mark.parametrize("wanted", [1, 3])
async def test_nothing_is_scaled_while_paused(world: FleetWorld, wanted: int) -> None:
    await started(world, 2)
    before = world.started()
    await world.put(**brokers(wanted), paused=True)
    rolls = RollReconciler(world.context)
    for _ in range(2):
        await rolls.reconcile(SHOP)
        world.settle()
    assert (await look(world)).broker_count == 2
    assert world.started() == before
    await world.put(**brokers(wanted))
    await rolls.reconcile(SHOP)
    world.settle()
    assert sorted((await look(world)).broker_ids) == list(range(wanted))


async def test_a_scale_decided_for_an_outdated_state_is_not_executed(world: FleetWorld) -> None:
    fleet, cluster = await started(world), await shop(world)
    old = await look(world)

    async def changed() -> None:
        raise KubeConflictError("its spec has changed")

    with pytest.raises(KubeConflictError):
        await fleet.scale(cluster, (), old, 1, changed)
    await fleet.scale(cluster, (), old, 2, unchanged)
    world.settle()
    with pytest.raises(KubeConflictError):
        await fleet.scale(cluster, (), old, 1, unchanged)
    assert (await look(world)).broker_count == 2


async def test_a_listener_is_open_on_all_brokers_at_the_end(world: FleetWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await started(world, 2)
    if isinstance(world, Pods):

        async def pool(*_: object) -> BrokerPool:
            return replace(world.brokers.pool(), brokers=world.brokers.pool().brokers[:2])

        monkeypatch.setattr(world.context, "pool_of", pool)
    rolls, listeners = RollReconciler(world.context), ListenerReconciler(world.context)
    await world.put(listener(), **brokers(2))
    for _ in range(LOOKS_MAX):
        await rolls.reconcile(SHOP)
        world.settle()
        await listeners.reconcile(SHOP)
        (found,) = (await world.context.gather(SHOP, [BROKER_LISTENER])).listeners
        if len(found.status.addresses) == 2:
            break
    ready = found.status.condition("Ready")
    assert ready is not None
    assert (ready.status, ready.reason, found.status.brokers) == ("True", "Listening", "2/2")


async def test_a_cluster_without_racks_has_no_broker_that_waits_for_one(world: FleetWorld) -> None:
    fleet = await started(world)
    assert await fleet.racks.plan(await shop(world), "zone") == RacksPlan()
    assert await RackReconciler(world.context).reconcile(SHOP) is None
