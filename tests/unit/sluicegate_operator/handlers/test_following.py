"""Settled clusters are awaited, not reconciled."""

import asyncio
from collections.abc import Callable

import pytest

from sluicegate_operator.fleet.kafka.controllers import ControllerPlace, ControllerView
from sluicegate_operator.handlers import following
from sluicegate_operator.handlers.following import Followers
from sluicegate_operator.planning.registrations.overview import ClusterOverview

SHOP = ("default", "shop")
PLACE = ControllerPlace(1000, "10.0.0.9")


def view(version: str) -> ControllerView:
    return ControllerView(ClusterOverview("c", 1000, 1, 9, (), version), PLACE)


class Controller:
    """Answers with the views that a test queues."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.answers: asyncio.Queue[ControllerView] = asyncio.Queue()
        monkeypatch.setattr(following, "newer_view", self.newer)
        monkeypatch.setattr(following, "AGAIN_AFTER_S", 0.0)

    async def newer(self, place: ControllerPlace, version: str, wait_s: float) -> ControllerView:
        assert place == PLACE
        self.asked.append(version)
        return await self.answers.get()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - it is another task that makes it so
            await asyncio.sleep(0)


async def test_a_change_marks_the_cluster_once_and_unchanged_answers_are_requested_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    controller, told = Controller(monkeypatch), list[tuple[str, str]]()
    monkeypatch.setattr(following, "TOO_SOON_S", 0.0)
    followers = Followers(told.append, 3.0)
    assert followers.follow(SHOP, view("1,9"))
    controller.answers.put_nowait(view("1,9"))
    await until(lambda: len(controller.asked) == 2)
    assert told == []
    controller.answers.put_nowait(view("1,10"))
    await until(lambda: bool(told))
    await followers.close()
    assert (told, controller.asked) == ([SHOP], ["1,9", "1,9"])


async def test_a_controller_that_does_not_answer_any_more_is_news(monkeypatch: pytest.MonkeyPatch) -> None:
    controller, told = Controller(monkeypatch), list[tuple[str, str]]()
    followers = Followers(told.append, 3.0)
    followers.follow(SHOP, view("1,9"))
    controller.answers.put_nowait(ControllerView(unseen="controller 1000 does not answer within 32 s"))
    await until(lambda: bool(told))
    await followers.close()


async def test_a_controller_without_room_for_waiting_requests_is_polled(monkeypatch: pytest.MonkeyPatch) -> None:
    controller, told = Controller(monkeypatch), list[tuple[str, str]]()
    followers = Followers(told.append, 3600.0)
    followers.follow(SHOP, view("1,9"))
    for _ in range(3):
        controller.answers.put_nowait(view("1,9"))
    await until(lambda: controller.answers.qsize() == 2)
    for _ in range(20):
        await asyncio.sleep(0)
    assert controller.asked == ["1,9"]
    assert not followers.follow(SHOP, view("")), "a controller of an older release is looked at as before"
    await followers.close()
    assert told == []


async def test_a_cluster_is_looked_at_when_waiting_for_its_view_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(place: ControllerPlace, version: str, wait_s: float) -> ControllerView:
        raise RecursionError("a view that nobody can read")

    told = list[tuple[str, str]]()
    monkeypatch.setattr(following, "newer_view", fails)
    monkeypatch.setattr(following, "AGAIN_AFTER_S", 0.0)
    followers = Followers(told.append, 3.0)
    followers.follow(SHOP, view("1,9"))
    await until(lambda: bool(told))
    await followers.close()
    assert told == [SHOP]
