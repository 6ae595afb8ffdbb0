"""A broker creates its coordinator of groups when it leads one of their partitions, or receives a request for one."""

import asyncio
import logging
from collections.abc import Callable
from types import ModuleType
from typing import cast

import pytest

from broker_runtime.coordination import service_on_demand
from broker_runtime.coordination.runtime import TermPhase
from broker_runtime.groups import service
from broker_runtime.groups.on_demand import SERVICE, GroupsOnDemand
from broker_runtime.metadata.topic_names import GROUPS_TOPIC
from broker_runtime.on_demand import Importer
from tests.support.groups.coordinating_broker import CoordinatingBroker


class Gate:
    """An importer that waits until a test sets `open`, and raises each of `problems` first."""

    def __init__(self) -> None:
        self.problems: list[Exception] = []
        self.open = asyncio.Event()

    async def load(self, name: str) -> ModuleType:
        assert name == SERVICE
        await self.open.wait()
        if self.problems:
            raise self.problems.pop()
        return service


class Node(CoordinatingBroker):
    """A broker that loads its groups on demand."""

    async def __aenter__(self) -> "Node":
        self.gate = Gate()
        importer = cast("Importer", self.gate)
        self.on_demand = GroupsOnDemand(
            lambda: self.settings.config,
            self.image,
            self.clock,
            importer,
            self.ends_made_of(),
            self.replicas.led_replicas.is_to_lead,
        )
        self.replicas.led_replicas.observers[GROUPS_TOPIC] = self.on_demand
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.replicas.stop()
        await self.on_demand.close()

    def active(self) -> list[int]:
        terms = self.on_demand.coordinator().terms
        return sorted(index for index, term in terms.items() if term.phase is TermPhase.ACTIVE)


@pytest.fixture(autouse=True)
def not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_on_demand, "imported", lambda _: None)
    monkeypatch.setattr(service_on_demand, "_RETRY_S", 0.001)


async def until(condition: Callable[[], object]) -> None:
    for _ in range(60_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("the condition did not come true in time")


async def test_without_groups_there_is_nothing_and_the_figures_are_zero() -> None:
    async with Node() as node:
        groups = node.on_demand
        groups.topics_changed(["orders"], {})
        groups.leads_no_more(GROUPS_TOPIC, 0)
        await groups.census.count()
        figures = groups.figures()
        assert (figures.loading, figures.active, figures.failed, figures.groups, figures.offsets) == (0, 0, 0, 0, 0)
        assert (groups.tally.offset_commits, groups.push_consumers, groups.notes()) == (0, 0, [])
        assert (list(groups.states()), list(groups.committed()), groups.census.groups) == ([], [], {})


async def test_partitions_that_are_led_before_the_import_has_ended_are_governed_then() -> None:
    async with Node(partitions=3) as node:
        node.elect(1)
        node.elect(-1, 1)
        assert node.on_demand.figures().loading == 2
        node.gate.open.set()
        await until(lambda: node.on_demand.figures().active == 2)
        assert node.active() == [0, 2]
        node.elect(1)
        await until(lambda: node.active() == [0, 1, 2])


async def test_an_import_that_fails_is_told_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async with Node() as node:
        node.gate.problems = [OSError(24, "Too many open files")] * 3
        with caplog.at_level(logging.ERROR):
            node.elect(1)
            node.gate.open.set()
            await until(lambda: node.on_demand.notes())
            assert "their code cannot be loaded: OSError(24, 'Too many open files')" in node.on_demand.notes()[0]
            await until(lambda: node.on_demand.figures().active == 2)
        assert len(caplog.records) == 3
        assert node.on_demand.notes() == []


async def test_a_request_makes_the_coordinator_at_once() -> None:
    async with Node() as node:
        assert node.on_demand.coordinator() is node.on_demand.coordinator()
        assert node.on_demand.tally is node.on_demand.coordinator().tally
        node.elect(1)
        await until(lambda: node.active() == [0, 1])
