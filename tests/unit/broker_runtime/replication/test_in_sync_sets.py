"""A leader's requests to the controller, and their rate, while the controller refuses, is silent or agrees."""

import asyncio
from itertools import pairwise
from types import SimpleNamespace

import pytest

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.brokers import UnfenceBroker
from broker_runtime.metadata.areas.topics import Partition
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.replication.in_sync_sets import InSyncSets, InSyncSettings
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.slicing.steps import at_once
from broker_runtime.wire.messages import Entity, Fields
from tests.support.fakes import virtual_time
from tests.support.logs.logs import LogHouse
from tests.support.logs.replicas import brokers, leading

SETTINGS = InSyncSettings(1, lag_max_s=1.0, backoff_max_s=0.8)


class Controller:
    """A controller with one answer to every request, and the times of the requests."""

    def __init__(self, leader: LeaderReplica, house: LogHouse) -> None:
        self.leader = leader
        self.house = house
        self.code = ErrorCode.NONE
        self.unreachable = False
        self.asked_s: list[float] = []

    async def request(self, api_key: int, version: int, content: Fields) -> Entity:
        self.asked_s.append(self.house.clock.monotonic())
        if self.unreachable:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "nobody there")
        part = SimpleNamespace(partition_index=0, error_code=self.code, partition_epoch=1)
        topic = SimpleNamespace(topic_id=self.leader.topic_id, partitions=[part])
        return SimpleNamespace(error_code=ErrorCode.NONE, topics=[topic])

    @property
    def pauses(self) -> list[float]:
        return [later - earlier for earlier, later in pairwise(self.asked_s)]


class Scene:
    """Broker 1 leads orders-0; broker 2 is in sync and silent, so it must leave."""

    def __init__(self) -> None:
        self.house = LogHouse()
        self.leader = leading(self.house.log, 1, 2)
        self.house.append(b"a")
        registered: list[MetadataRecord] = []
        for info in brokers(1, 2).values():
            registered += [info.registration, UnfenceBroker(info.id, info.epoch)]
        image = at_once(MetadataImage.of_snapshot(registered, 10))
        led = {("orders", 0): self.leader}
        self.sets = InSyncSets(SETTINGS, self.house.clock, image, led, lambda: 11)
        self.controller = Controller(self.leader, self.house)

    def run_for(self, seconds: float) -> None:
        async def run() -> None:
            task = asyncio.create_task(self.sets.keep(self.controller))
            await asyncio.sleep(seconds)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        virtual_time.run(run(), self.house.clock)


@pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.NONE])
def test_an_isr_change_missing_from_the_metadata_is_requested_with_growing_delays(
    code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    scene = Scene()
    scene.controller.code = code
    scene.run_for(30.0)
    pauses = scene.controller.pauses
    assert pauses[:3] == sorted(pauses[:3])
    assert min(pauses[6:]) >= SETTINGS.backoff_max_s
    said = [record for record in caplog.records if "in-sync set" in record.message]
    assert len(said) == (code != ErrorCode.NONE), "once, as nothing has changed since"


def test_a_newer_state_of_the_partition_is_asked_about_at_once() -> None:
    scene = Scene()
    scene.controller.code = ErrorCode.INVALID_UPDATE_VERSION
    scene.run_for(10.0)
    scene.leader.update(Partition((1, 2), (1, 2), 1, 0, 5), brokers(1, 2), 0.0)
    asked = len(scene.controller.asked_s)
    scene.run_for(1.5)
    assert len(scene.controller.asked_s) - asked >= 3


def test_a_controller_that_cannot_be_reached_is_asked_less_and_less_often(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.controller.unreachable = True
    scene.run_for(30.0)
    assert min(scene.controller.pauses[6:]) >= SETTINGS.backoff_max_s
    assert len([record for record in caplog.records if "nobody there" in record.message]) == 1
