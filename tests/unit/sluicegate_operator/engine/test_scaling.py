"""The outcome of a change of scale that a broker or the API server refuses."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.engine.context.snapshot import Snapshot
from sluicegate_operator.engine.lasting_refusals import TOLD_AFTER_S
from sluicegate_operator.engine.scaling import CHANGED_RETRY, Scale, Scaling
from sluicegate_operator.engine.work_queue import REFUSED_RETRY, Again
from sluicegate_operator.fleet.kafka.controllers import ControllerView
from sluicegate_operator.fleet.kubernetes.kubernetes import KubernetesFleet
from sluicegate_operator.fleet.protocol import NodesSeen
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.kafka_admin.errors import KafkaApiError
from sluicegate_operator.kube.http.errors import KubeConflictError, KubeError
from sluicegate_operator.planning.rolls.scale import Move, ScaleReason, ScaleStep
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import MemoryKube

pytestmark = pytest.mark.virtual_time

CLUSTER = BrokerCluster.model_validate(
    {
        "metadata": {"name": "shop", "namespace": "default", "uid": "u"},
        "spec": {"brokers": {"replicas": 2, "storage": {"size": "1Gi"}}},
    }
)
MOVES = tuple(Move("orders", index, (0, 1)) for index in range(5))
DRAINING = ScaleStep(3, ScaleReason.DRAINING, "5 partitions are being moved from broker 2", MOVES)
UNREGISTERING = ScaleStep(3, ScaleReason.UNREGISTERING, "unregistering broker 3", unregister=(3, 4))
DOWN = ScaleStep(2, ScaleReason.SCALING_DOWN, "no replicas are left on broker 2")
DENIED = KafkaApiError(int(ErrorCode.cluster_authorization_failed), "not for you", "reassigning partitions")
NOT_NOW = KafkaApiError(int(ErrorCode.not_controller), None, "reassigning partitions")


class Handle:
    """A broker with scripted refusals."""

    def __init__(self, moves: Callable[[tuple[str, int]], str], error: Exception | None) -> None:
        self._moves, self._error = moves, error
        self.unregistered: list[int] = []

    async def alter_reassignments(self, targets: dict[tuple[str, int], Any]) -> dict[tuple[str, int], str]:
        if self._error is not None:
            raise self._error
        return {partition: why for partition in targets if (why := self._moves(partition))}

    async def unregister_broker(self, broker_id: int) -> None:
        if self._error is not None and broker_id == 3:
            raise self._error
        self.unregistered.append(broker_id)


class World:
    def __init__(self) -> None:
        self.kube = MemoryKube()
        self.context = Context(self.kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
        self.scaling = Scaling(self.context)

    async def act(
        self, step: ScaleStep, handle: Handle | None = None, *, moving: bool = False
    ) -> tuple[ScaleStep, Again]:
        class Pool:
            async def ask_any(self, question: Any) -> Any:
                return await question(None, handle)

        nodes = NodesSeen(ControllerView(), (), {}, (), 3, ())
        found = Scale(Snapshot(CLUSTER), nodes, Pool(), moving, _unchanged)  # type: ignore[arg-type]
        return await self.scaling.act(CLUSTER, found, step)


def refuse_scale(monkeypatch: pytest.MonkeyPatch, error: KubeError) -> None:
    async def scale(*_: object) -> tuple[str, ...]:
        raise error

    monkeypatch.setattr(KubernetesFleet, "scale", scale)


async def _unchanged() -> None:
    """Do nothing: the decision is still valid."""


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.context.aclose()


def nothing(_: tuple[str, int]) -> str:
    return ""


def everything(_: tuple[str, int]) -> str:
    return "not placed"


async def test_moves_that_are_all_refused_need_a_person_and_are_named(world: World) -> None:
    for _ in range(2):
        told, again = await world.act(DRAINING, Handle(everything, None))
        assert (told.reason, again) == (ScaleReason.MOVE_REFUSED, REFUSED_RETRY)
        assert told.message == (
            "5 partitions are being moved from broker 2; orders-0 cannot be moved: not placed; orders-1 cannot be"
            " moved: not placed; orders-2 cannot be moved: not placed; 2 more moves are refused"
        )
    assert len(world.kube.events("MoveRefused")) == len(MOVES)
    assert world.kube.events("Draining") == [], "nothing is moved"


@pytest.mark.parametrize("moving", [True, False])
async def test_a_drain_goes_on_while_other_partitions_move(world: World, moving: bool) -> None:
    only_first = everything if moving else lambda partition: "no" if partition == ("orders", 0) else ""
    told, again = await world.act(DRAINING, Handle(only_first, None), moving=moving)
    assert (told.reason, again) == (ScaleReason.DRAINING, world.context.fleet.poll_every_s)
    assert "orders-0 cannot be moved" in told.message


async def test_a_drain_refused_by_brokers_is_reported_with_their_error(world: World) -> None:
    told, again = await world.act(DRAINING, Handle(nothing, DENIED))
    assert (told.reason, again) == (ScaleReason.MOVE_REFUSED, REFUSED_RETRY)
    assert "CLUSTER_AUTHORIZATION_FAILED: not for you" in told.message


async def test_a_drain_that_may_be_accepted_later_is_asked_for_again_soon(world: World) -> None:
    told, again = await world.act(DRAINING, Handle(nothing, NOT_NOW))
    assert (told, again) == (DRAINING, world.context.fleet.poll_every_s)


async def test_a_broker_that_cannot_be_unregistered_is_reported(world: World) -> None:
    handle = Handle(nothing, DENIED)
    told, again = await world.act(UNREGISTERING, handle)
    assert (told.reason, again, handle.unregistered) == (ScaleReason.UNREGISTER_REFUSED, REFUSED_RETRY, [4])
    assert told.message.startswith("broker 3 cannot be unregistered: ")
    assert "not for you" in told.message


async def test_a_broker_that_cannot_be_unregistered_yet_keeps_no_other_one(world: World) -> None:
    handle = Handle(nothing, NOT_NOW)
    assert await world.act(UNREGISTERING, handle) == (UNREGISTERING, world.context.fleet.poll_every_s)
    assert handle.unregistered == [4]


async def test_a_number_of_brokers_that_is_refused_is_told_with_the_api_servers_words(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_scale(monkeypatch, KubeError("422 the policy forbids it", 422))
    for _ in range(2):
        told, again = await world.act(DOWN)
        assert (told.reason, again) == (ScaleReason.SCALE_REFUSED, REFUSED_RETRY)
        assert told.message.startswith("the StatefulSet keeps 3 brokers instead of 2, because the API server refuses")
        assert "422 the policy forbids it" in told.message


async def test_a_number_of_brokers_that_may_be_accepted_later_is_told_when_that_lasts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_scale(monkeypatch, KubeError("failed calling webhook", 500, retriable=True))
    with pytest.raises(KubeError, match="failed calling webhook"):
        await world.act(DOWN)
    await asyncio.sleep(TOLD_AFTER_S)
    told, again = await world.act(DOWN)
    assert (told.reason, again) == (ScaleReason.NOT_APPLIED, REFUSED_RETRY)
    assert "failed calling webhook" in told.message


async def test_a_decision_that_is_outdated_each_time_is_reported_once_that_lasts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_scale(monkeypatch, KubeConflictError("its spec has changed"))
    assert await world.act(DOWN) == (DOWN, CHANGED_RETRY)
    await asyncio.sleep(TOLD_AFTER_S)
    told, _ = await world.act(DOWN)
    assert told.reason is ScaleReason.NOT_APPLIED
